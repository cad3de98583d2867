"""Functions for notebooks, offered by the package itself."""

from cadmus.config import Dataset
from cadmus.dataset import sampler
from cadmus.errors import InputError


def sample(
    template: str, n: int, *, seed: int = 1, split: str = "train", dataset: Dataset | None = None
) -> list[str]:
    """Sample ``n`` true programs of a template, as ``cadmus sample`` prints them.

    Args:
        template: one of :data:`cadmus.config.TEMPLATES`.
        n: number of programs.
        seed: the same seed gives the same programs on every machine.
        split: train, validation, test, or ood if ``dataset`` has rules; splits share no programs.
        dataset: ranges and lengths, such as ``load_config("config/laptop.yaml").dataset``; None for the
            defaults.

    Returns:
        Programs without their end ``.``, distinct if the template has enough.

    Raises:
        InputError: no such template or split, ``n`` or ``seed`` is negative, or hardly any candidate is kept.
    """
    for name, value in (("n", n), ("seed", seed)):
        if value < 0:
            raise InputError(f"{name}: must be at least 0, got {value}")
    return sampler.sample(dataset or Dataset(), seed, template, split, 0, n).programs.to_strings()
