"""Bad settings of a curriculum, by the message."""

REFUSED = {
    "no such key; it is called curriculum.order now": ("train.order", "staged"),
}
