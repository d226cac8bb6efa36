from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])

def compiled(function: Function) -> Function: ...
def swap_down(result: NDArray[np.uint32], raw: NDArray[np.uint64], first: int) -> None: ...
def splitmix64(x: np.uint64) -> np.uint64: ...
def draw_languages(
    scrambled: bool,
    base: np.uint64,
    first_slot: np.uint64,
    languages: NDArray[np.int64],
    last_draws: NDArray[np.uint64],
    guide: NDArray[np.uint32],
    guide_shift: np.uint64,
    result: NDArray[np.int64],
) -> None: ...
def count_positions(
    scrambled: bool,
    base: np.uint64,
    first: np.uint64,
    stop: np.uint64,
    last_draws: NDArray[np.uint64],
    guide: NDArray[np.uint32],
    guide_shift: np.uint64,
    counts: NDArray[np.int64],
) -> None: ...
def number_occurrences(languages: NDArray[np.int64], before: NDArray[np.int64], result: NDArray[np.int64]) -> None: ...
def floor_sum(n: np.uint64, a: np.uint64, b: np.uint64) -> int: ...
def count_below(
    positions: np.uint64,
    streams: np.uint64,
    base: np.uint64,
    threshold_words: NDArray[np.uint64],
    result: NDArray[np.int64],
) -> None: ...
