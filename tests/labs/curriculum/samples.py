"""Bad settings of a curriculum, by the message."""

REFUSED = {
    "curriculum.seed: needs order random, got mixture": ("train.curriculum.seed", 3),
    "no such key; it is called curriculum.order now": ("train.order", "staged"),
}
