"""Settings of the calls of language models; options of commands are made from them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

from trivet.settings import QuietOption, RestartOption, Setting, SettingError

if TYPE_CHECKING:
    from trivet.llm.cache import AnswerCache
    from trivet.llm.client import ChatClient

_llm = partial(Setting, panel="Language model")
BaseUrlOption = Annotated[
    str | None,
    _llm(
        "OpenAI-compatible endpoint, such as http://127.0.0.1:8080/v1; default: OpenAI, or "
        "OPENAI_BASE_URL. The key is read from OPENAI_API_KEY.",
        metavar="URL",
    ),
]
MaxDollarsOption = Annotated[
    float | None,
    _llm("Stop before more is spent, earlier runs included; needs --price.", metavar="N", least=0),
]
ConcurrencyOption = Annotated[int, _llm("Most calls at once.", metavar="N", least=1)]


@dataclass(frozen=True)
class LlmSettings:
    """Endpoint and cost of calls, and whether to overwrite a file or only to foresee."""

    base_url: BaseUrlOption = None
    price: Annotated[
        list[str] | None,
        _llm(
            "Dollars per million tokens read and written; one for all models, or one for each.",
            metavar="IN,OUT",
        ),
    ] = None
    max_dollars: MaxDollarsOption = None
    concurrency: ConcurrencyOption = 8
    dry_run: Annotated[bool, _llm("Print calls, tokens and dollars; call nothing.")] = False
    restart: RestartOption = False
    quiet: QuietOption = False

    @contextlib.contextmanager
    def open_clients(self, models: Sequence[str], cache: AnswerCache) -> Iterator[list[ChatClient]]:
        """Open a client for each model, with one budget; what the cache holds counts as spent.

        Raises:
            SettingError: There is a limit and no price, or prices for other than one or all models.
        """
        from trivet.llm.budget import Budget, Price
        from trivet.llm.client import ChatClient

        given = [Price.parse(text) for text in self.price or ("0,0",)]
        if self.max_dollars is not None and not self.price:
            raise SettingError("--max-dollars needs --price IN,OUT")
        if len(given) not in (1, len(models)):
            raise SettingError(f"{len(given)} --price for {len(models)} --model; give 1 or each")
        priced = list(zip(models, given * (len(models) // len(given)), strict=True))
        spent = sum(price.cost(*cache.tokens(model)) for model, price in dict(priced).items())
        client = partial(
            ChatClient,
            base_url=self.base_url,
            cache=cache,
            budget=Budget(self.max_dollars, spent),
            concurrency=self.concurrency,
        )
        with contextlib.ExitStack() as stack:
            yield [stack.enter_context(client(model, price=price)) for model, price in priced]
