"""Exact-match embedding: marks tokens that occur in both segments of a window.

Small encoders hardly learn to compare words. Exact match is a known input feature (Chen et al.,
arXiv 1704.00051, 3.2); it is computed in the graph from the ids. Where every digit is a token of
its own, whole numbers are compared: the digits of 1791 are all in 1790 and 21.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

_DIGITS = 8  # digits of a number that count: 11^8 and the ids fit 32 bits
_NUMBERS = 2**29  # least number of a number, above all ids


class ExactMatchEmbedding(nn.Module):
    """Embedding of a token's match in the other segment, added to the word embedding.

    With ``by_segment`` the response has rows of its own: an encoder without token types cannot
    tell it from the contexts otherwise. ``digits`` are the ids of 0 to 9, if each is a token, and
    perhaps of other forms of 0 to 9 after them; -1 for none. ``of_response`` tells that only the
    response is marked, so that contexts and question do not depend on it.
    """

    digits: Tensor | None
    of_response = False

    def __init__(self, width: int, by_segment: bool = False, digits: Sequence[int] = ()) -> None:
        super().__init__()
        self.by_segment = by_segment
        self.compare_numbers(digits)
        self.kinds = nn.Embedding(6 if by_segment else 3, width)
        nn.init.normal_(self.kinds.weight, std=0.02)

    def compare_numbers(self, digits: Sequence[int]) -> None:
        """Compare whole numbers from now on, or tokens if there are no ids of digits."""
        ids = torch.tensor(digits, dtype=torch.int32) if digits else None
        self.register_buffer("digits", ids)

    def forward(self, input_ids: Tensor, segment_ids: Tensor) -> Tensor:
        """Return the embeddings of the matches. *Shapes:* [N, L] x 2 -> [N, L, width]."""
        kinds = match_kinds(input_ids, segment_ids, self.digits)
        if self.of_response:
            kinds = kinds * segment_ids
        added: Tensor = self.kinds(kinds + 3 * segment_ids if self.by_segment else kinds)
        return added


def match_kinds(input_ids: Tensor, segment_ids: Tensor, digits: Tensor | None = None) -> Tensor:
    """Return each token's match in the other segment of its window. *Shapes:* [N, L] x 2 -> [N, L].

    0: none; 1: the token alone; 2: the token with a neighbour, in the same order. Ids are below
    2^30 (2^29 with ``digits``), segments 0 or 1. With the ids of ``digits``, each digit has the
    match of its whole number.
    """
    words, segment = input_ids.to(torch.int32), segment_ids.to(torch.int32)
    if digits is None:
        sides = [_after(words, -1), _before(words, -1)]
    else:
        words, *sides = _whole_numbers(words, digits)
    # One number for word and segment: equal if the same word is in the other segment.
    same = _meet(2 * words + segment, 2 * words + 1 - segment)
    # Ends of windows (-1) have no equal neighbour.
    after, before = (_meet(each, torch.where(each < 0, -2, each)) for each in sides)
    # fp32, since TensorRT lacks int8 here and integer reductions are slow on CPUs.
    found = torch.where(same, (after | before).to(torch.float32) + 1.0, 0.0).amax(dim=-1)
    return found.to(torch.int64)


def _whole_numbers(words: Tensor, digits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return each token, or the number of a digit, and its neighbours. *Shapes:* [N, L], [D].

    Of a number with more digits the last eight up to a digit and the following seven count.
    """
    values = torch.arange(len(digits), device=words.device).remainder(10) + 1.0
    # fp32, as in ``match_kinds``; each word is at most one of the digits.
    values = torch.where(words[:, :, None] == digits, values, 0.0).amax(dim=-1)
    digit = values.to(torch.int32)
    is_digit = digit > 0
    first, last = is_digit & ~(_before(digit, 0) > 0), is_digit & ~(_after(digit, 0) > 0)
    number = digit  # up to this digit
    for _ in range(_DIGITS - 1):
        number = torch.where(is_digit, _before(number, 0) * 11 + digit, 0)
    words = torch.where(is_digit, _copy(number, is_digit & ~last, _after) + _NUMBERS, words)
    following = _copy(_after(words, -1), is_digit & ~last, _after)
    preceding = _copy(_before(words, -1), is_digit & ~first, _before)
    return words, following, preceding


def _copy(values: Tensor, within: Tensor, neighbour: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Copy values along numbers, from their ends to the digits ``within``."""
    copied = values
    for _ in range(_DIGITS - 1):
        copied = torch.where(within, neighbour(copied, -1), values)
    return copied


def _after(values: Tensor, end: int) -> Tensor:
    """Return the value of the next token; ``end`` after the last."""
    return nn.functional.pad(values[:, 1:], (0, 1), value=end)


def _before(values: Tensor, end: int) -> Tensor:
    """Return the value of the token before; ``end`` before the first."""
    return nn.functional.pad(values[:, :-1], (1, 0), value=end)


def _meet(tokens: Tensor, others: Tensor) -> Tensor:
    """Compare all pairs. *Shapes:* [N, L] x 2 -> [N, L, L]."""
    return tokens[:, :, None] == others[:, None, :]
