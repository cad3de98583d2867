"""What one types in a notebook; everything else is imported from where it is."""

from cadmus.config import Dataset
from cadmus.dataset import sampler
from cadmus.errors import InputError


def sample(
    template: str, n: int, *, seed: int = 1, split: str = "train", dataset: Dataset | None = None
) -> list[str]:
    """``n`` true programs of a template, as ``cadmus sample`` prints them.

    Args:
        template: one of :data:`cadmus.config.TEMPLATES`.
        n: programs wanted.
        seed: the same seed gives the same programs on every machine.
        split: train, validation, test, or ood where ``dataset`` has rules; they share no program.
        dataset: ranges and lengths, for example ``load_config("config/laptop.yaml").dataset``; if None, the
            defaults.

    Returns:
        The programs without their end ``.``, distinct where the template has enough.

    Raises:
        InputError: no such template or split, ``n`` or ``seed`` is negative, or hardly anything that the
            template gives is kept.
    """
    for name, value in (("n", n), ("seed", seed)):
        if value < 0:
            raise InputError(f"{name} is {value}; it is 0 or more")
    return sampler.sample(dataset or Dataset(), seed, template, split, 0, n).programs.to_strings()
