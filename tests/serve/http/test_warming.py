"""The door is open while the engine gets warm: what comes in meanwhile does no harm."""

from __future__ import annotations

import asyncio

import httpx2

from tests.serve.http.conftest import EvenBackend
from tests.serve.http.connections import PATIENCE, until
from trivet.data.windows import Windows
from trivet.evaluation.evaluator import Evaluator
from trivet.model.aggregate import Outputs
from trivet.serve.http.health import CANARY
from trivet.serve.http.running_server import RunningServer, bind
from trivet.serve.http.settings import ServerSettings

EXAMPLE = {
    "question": CANARY.question,
    "contexts": list(CANARY.contexts),
    "response": CANARY.response,
}


NO_REFUSAL = 'trivet_rejected_total{reason="windows"} 0.0'


class OneCallBackend(EvenBackend):
    """Shuts its gate behind the first call."""

    def run(self, windows: Windows) -> Outputs:
        answer = super().run(windows)
        if self.calls == 1:
            self.gate.clear()
        return answer


def test_a_queue_that_is_full_meanwhile_does_not_end_the_server() -> None:
    backend = OneCallBackend()

    async def whole() -> None:
        backend.gate.clear()
        settings = ServerSettings(port=0, max_queued_windows=2)
        server = RunningServer(Evaluator(backend=backend), settings)
        with bind(settings.host, settings.port) as listening:
            starting = asyncio.create_task(server.start(listening))
            await until(backend.entered.is_set)
            async with httpx2.AsyncClient(base_url=server.url) as client:
                body = {"examples": [EXAMPLE] * 20}  # while none wait, it may be more than may wait
                work = asyncio.create_task(client.post("/v1/evaluate", json=body))
                await until(lambda: server.batcher.state().windows == 20)
                backend.gate.set()  # the canary is answered, and the next example finds no room
                while NO_REFUSAL in (await client.get("/metrics")).text:
                    await asyncio.sleep(0.005)
                backend.gate.set()
                await starting
                assert (await work).status_code == 200
            assert server.health.ready() is None
            assert await server.stop()

    asyncio.run(asyncio.wait_for(whole(), PATIENCE))
