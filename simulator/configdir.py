"""Where our own configs are."""

from pathlib import Path


def config_dir() -> Path:
    """The folder of our own configs: inside the package when installed from a wheel, beside it in a checkout."""
    here = Path(__file__).resolve().parent
    return here / "conf" if (here / "conf").is_dir() else here.parent / "conf"
