#!/usr/bin/env bash
# Runs each adapter against its real library, in an environment of its own with the versions below.
#
#     bash tests/integrations/run_with_real_libraries.sh [TOOL ...]
#
# Environments are made under ENVIRONMENTS (a temporary folder where it is not set) and kept; a
# second run takes them as they are. Spark needs Java 17 or later. Exit status: how many failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

environments=${ENVIRONMENTS:-$(mktemp -d)}
python=${PYTHON:-python3}

# tool | the title of its example in docs/integrations.md | what is installed beside trivet
tools='ragas|RAGAS|ragas==0.4.3 langchain-community==0.3.31
deepeval|DeepEval|deepeval==4.3.1
langsmith|LangSmith|langsmith==0.14.17
langchain|LangChain|langchain-core==1.7.2
llama_index|LlamaIndex|llama-index-core==0.14.25
haystack|Haystack|haystack-ai==3.4.0
mlflow|MLflow|mlflow==3.17.2
phoenix|Phoenix|arize-phoenix-evals==3.9.4
inspect_ai|Inspect|inspect-ai==0.3.285
trulens|TruLens|trulens==2.16.0
evaluate|Hugging|evaluate==0.4.6
lettucedetect|LettuceDetect|lettucedetect==0.2.3
ray|Ray|ray[data]==2.60.0
spark|Spark|pyspark==4.3.0 pandas==3.1.1 pyarrow==26.0.1'

failed=0
while IFS='|' read -r -u 3 tool title packages; do
    [ $# -eq 0 ] || [[ " $* " == *" $tool "* ]] || continue
    environment=$environments/$tool
    if [ ! -e "$environment/ready" ]; then
        # shellcheck disable=SC2086  # several packages
        "$python" -m venv "$environment" &&
            "$environment/bin/python" -m pip install --quiet -e . pytest hypothesis $packages &&
            touch "$environment/ready" || { echo "$tool: not installed"; failed=$((failed + 1)); continue; }
    fi
    # Neither their pytest plugins nor what they warn of is what is tested.
    if PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 "$environment/bin/python" -m pytest -q -p no:cacheprovider -W ignore \
        "tests/integrations/real/test_$tool.py" \
        "tests/integrations/real/test_documented_examples.py" -k "test_$tool or runs and $title" \
        -rs; then
        echo "$tool: passed"
    else
        echo "$tool: FAILED"
        failed=$((failed + 1))
    fi
done 3<<<"$tools"
exit "$failed"
