"""the steps of one round -> a picture: milliseconds of each, of flatmix and of the floor, with the refills marked."""

from collections.abc import Sequence
from pathlib import Path

from flatmix.bench.result import Series


def check_plot(file: Path) -> None:
    """ValueError where no picture can be made, before anything is measured for it."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ValueError("a picture needs matplotlib: install flatmix[plot]") from None
    if not file.parent.is_dir():
        raise ValueError(f"{file}: there is no folder {file.parent}")
    if file.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"{file}: give the picture a name that ends in .png, .svg or .pdf")


def refills(filled: Sequence[int]) -> list[int]:
    """The steps in which the count of filled buffers rose."""
    return [step for step in range(1, len(filled)) if filled[step] > filled[step - 1]]


def plot(series: Series, file: Path, title: str) -> None:
    """Writes the picture. A mark stands below each step in which a shuffle buffer was filled."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.plot(series.floor, color="0.6", linewidth=0.6, label="floor: raw memory-mapped files")
    axes.plot(series.flatmix, color="tab:blue", linewidth=0.6, label="flatmix")
    marked = refills(series.filled)
    lowest = min(*series.flatmix, *series.floor) * 0.8
    axes.plot(marked, [lowest] * len(marked), "|", color="tab:red", markersize=9, label="a shuffle buffer was filled")
    axes.set_yscale("log")
    axes.set_xlabel("step, after the first buffers")
    axes.set_ylabel("ms")
    axes.set_title(title)
    axes.legend(loc="upper right")
    figure.savefig(file, dpi=120)
