#!/usr/bin/env bash
# Tests each adapter with its real library, in a separate environment with the versions below.
#
#     bash tests/integrations/run_with_real_libraries.sh [TOOL ...]
#
# Environments are made under ENVIRONMENTS (default: a temporary folder), kept, and reused by the
# next run. The exit status is the number of failures.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

environments=${ENVIRONMENTS:-$(mktemp -d)}
python=${PYTHON:-python3}

# tool | packages to install with trivet
tools='ragas|ragas==0.4.3 langchain-community==0.3.31
deepeval|deepeval==4.3.1
langsmith|langsmith==0.14.17
langchain|langchain-core==1.7.2
llama_index|llama-index-core==0.14.25
openai|openai==3.54.0 httpx==0.28.1
haystack|haystack-ai==3.4.0
mlflow|mlflow==3.17.2
phoenix|arize-phoenix-evals==3.9.4
ray|ray[data]==2.60.0'

failed=0
while IFS='|' read -r -u 3 tool packages; do
    [ $# -eq 0 ] || [[ " $* " == *" $tool "* ]] || continue
    environment=$environments/$tool
    if [ ! -e "$environment/ready" ]; then
        # shellcheck disable=SC2086  # several packages
        "$python" -m venv "$environment" &&
            "$environment/bin/python" -m pip install --quiet -e . pytest hypothesis $packages &&
            touch "$environment/ready" || { echo "$tool: not installed"; failed=$((failed + 1)); continue; }
    fi
    # The pytest plugins and the warnings of the tools are not under test.
    if PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 "$environment/bin/python" -m pytest -q -p no:cacheprovider -W ignore \
        tests/integrations/real -k "$tool" -rs; then
        echo "$tool: passed"
    else
        echo "$tool: FAILED"
        failed=$((failed + 1))
    fi
done 3<<<"$tools"
exit "$failed"
