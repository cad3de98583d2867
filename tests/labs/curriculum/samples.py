"""Bad settings of a curriculum, by the message."""

REFUSED = {
    "curriculum.seed: needs order random, got mixture": ("train.curriculum.seed", 3),
    "subset: needs train.curriculum.order mixture, got staged": (
        "train",
        {"steps": 2, "curriculum": {"order": "staged"}, "subset": {"fraction": 0.5}},
    ),
    "no such key; it is called curriculum.order now": ("train.order", "staged"),
}
