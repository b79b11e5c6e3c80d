"""``/v1/lettucedetect/spans``: answers where a client of LettuceDetect's server asks."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from trivet.evaluation.postprocessing import lettucedetect_spans
from trivet.records import RagExample
from trivet.serve.http.parsing import parser
from trivet.serve.http.request_models import LettuceDetectBody, texts
from trivet.serve.http.request_service import Judging


def lettucedetect_route(judging: Judging) -> Route:
    """Return the route.

    Args:
        judging: Who judges.
    """
    read = parser(LettuceDetectBody)

    async def spans(request: Request) -> Response:
        body = await judging.read(request, read)
        example = RagExample(body.question, texts(body.contexts), body.answer)
        judged, verdict = await judging.judge_one(request, example, body.timeout_ms)
        return await judging.answer(
            judged, lambda: {"predictions": lettucedetect_spans(verdict, "hallucination_score")}
        )

    return Route("/v1/lettucedetect/spans", spans, methods=["POST"])
