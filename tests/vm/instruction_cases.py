r"""Programs and their outputs, for every instruction and both VMs.

Outputs are formatted by :func:`cadmus.vm.reference.show`, the top of the stack last.
"""

P = "44*E*E*"  # 65536
MAX = P + "EE2/1-*s1-+"  # the largest integer
MIN = MAX + "~1-"  # the smallest
SIXTEEN = "44*I"  # 0 to 15, the longest sequence
COUNTDOWN = r"\1-ER;"  # of n calls itself to the depth n
MARKED = "u3b11:b32:b12:b"  # [3 1:1 3:2 1:2]
NESTED = r"\~"  # a definition in a definition


def cases(*lines: str) -> list[tuple[str, str]]:
    """Read cases ``PROGRAM → OUTPUTS`` between points."""
    pairs = (case.split("→") for line in lines for case in line.split("·"))
    return [(program.strip(), outputs.strip()) for program, outputs in pairs]


CASES: dict[str, list[tuple[str, str]]] = {
    ".": cases(r". → · 1.2 → 1 · 12+.0/ → 3 · 1\2.;3 → 1 · 1f.\5; → NAN"),
    **{
        digit: cases(f"{digit} → {digit} · {digit}{digit} → {digit} {digit} · t{digit} → 10 {digit}")
        for digit in "0123456789"
    },
    "t": cases("t → 10 · tt → 10 10 · 5t → 5 10"),
    "Z": cases("Z → -1 · ZZ → -1 -1 · 5Z → 5 -1"),
    "u": cases("u → [] · uu → [] [] · 5u → 5 []"),
    "+": cases(
        f"34+ → 7 · + → NAN · 4+ → NAN · 10/4+ → NAN · {MAX}0+ → 2147483647 · {MAX}1+ → NAN · {MIN}Z+ → NAN",
        "3I4+ → [4 5 6] · 43I+ → [4 5 6] · 3IE+ → [0 2 4] · 3I2I+ → NAN · uu+ → [] · u5+ → [] · u1I+ → NAN",
        f"u0b{MAX}b1+ → NAN · 32:11:+ → 4 · {MARKED}0+ → [3 1 3 1] · 5_+ → NAN",
    ),
    "-": cases(f"34- → -1 · - → NAN · 4- → NAN · {MIN}1- → NAN · 3I1- → [-1 0 1]"),
    "*": cases(f"34* → 12 · * → NAN · {P}E* → NAN · {MIN}Z* → NAN · 3IE* → [0 1 4]"),
    "/": cases(
        f"72/ → 3 · / → NAN · 7~2/ → -4 · 72~/ → -4 · 7~2~/ → 3 · 70/ → NAN · 00/ → NAN · {MIN}Z/ → NAN",
        "63I/ → NAN · u0/ → []",
    ),
    "%": cases(
        f"72% → 1 · % → NAN · 7~2% → 1 · 72~% → -1 · 7~2~% → -1 · 70% → NAN · {MIN}Z% → 0",
        "5I3% → [0 1 2 0 1]",
    ),
    "x": cases("37x → 7 · x → NAN · 7x → NAN · Z0x → 0 · 5I2x → [2 2 2 3 4] · 72:5x → 7"),
    "n": cases("37n → 3 · n → NAN · 7n → NAN · Z0n → -1 · 5I2n → [0 1 2 2 2] · 52:7n → 5"),
    "<": cases(f"34< → 1 · < → NAN · 44< → 0 · 43< → 0 · 3I1< → [1 0 0] · {MIN}{MAX}< → 1"),
    ">": cases(f"43> → 1 · > → NAN · 44> → 0 · 34> → 0 · 3I1> → [0 0 1] · {MIN}{MAX}> → 0"),
    "=": cases("44= → 1 · = → NAN · 45= → 0 · 42:43:= → 1 · 3I1= → [0 1 0] · 3I2I= → NAN · 10/E= → NAN"),
    "&": cases("12& → 1 · & → NAN · 10& → 0 · 0Z& → 0 · 00& → 0 · 3IE& → [0 1 1]"),
    "|": cases("10| → 1 · | → NAN · 00| → 0 · 0Z| → 1 · 12| → 1 · 3I0| → [0 1 1]"),
    "!": cases("0! → 1 · ! → NAN · 5! → 0 · Z! → 0 · 10/! → NAN · 3I! → [1 0 0] · u! → []"),
    "?": cases("5? → 1 · ? → NAN · 0? → 0 · Z? → 1 · 3I? → [0 1 1] · u? → []"),
    "'": cases(f"5' → 6 · ' → NAN · Z' → 0 · {MAX}' → NAN · 3I' → [1 2 3] · 52:' → 6"),
    "B": cases(f"7B → 3 · B → NAN · 7~B → -4 · ZB → -1 · {MIN}B → -1073741824 · 5IB → [0 0 1 1 2]"),
    "~": cases(f"7~ → -7 · ~ → NAN · 0~ → 0 · {MAX}~ → -2147483647 · {MIN}~ → NAN · 3I~ → [0 -1 -2]"),
    "a": cases(f"7~a → 7 · a → NAN · 7a → 7 · {MIN}a → NAN · 3I2-a → [2 1 0] · 73:a → 7"),
    "e": cases(f"4e → 1 · e → NAN · 5e → 0 · 0e → 1 · Ze → 0 · {MIN}e → 1 · 3Ie → [1 0 1]"),
    "E": cases("5E → 5 5 · E → NAN NAN · 10/E → NAN NAN · 3IE → [0 1 2] [0 1 2] · 52:E → 5:2 5:2"),
    "_": cases("56_ → 5 · _ → · 10/_ → · 3I_ → · 5_6 → 6 · __5 → 5"),
    "s": cases(
        "56s → 6 5 · s → NAN NAN · 5s → NAN NAN · 510/s → NAN NAN · 3I54:s → 5:4 [0 1 2]",
        f"{SIXTEEN}us → [] [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15]",
    ),
    "o": cases("56o → 5 6 5 · o → NAN NAN NAN · 5o → NAN NAN NAN · u52:o → [] 5:2 []"),
    "r": cases(
        "456r → 5 6 4 · r → NAN NAN NAN · 56r → NAN NAN NAN · 10/56r → NAN NAN NAN",
        "3I52:ur → 5:2 [] [0 1 2]",
    ),
    "i": cases(
        "156i → 5 · i → NAN · 56i → NAN · 056i → 6 · u56i → 5 · 10/56i → NAN · 1510/i → NAN · 03I52:i → 5:2",
        "13I52:i → [0 1 2]",
    ),
    "\\": cases(
        r"\1+;5f → 6 · \ → · 5\ → 5 · 5f\1+; → 6 · 5f\1+ → 6 · \1\+;5f → 6 · \1+\2+;5f → 8 · 1\2;3 → 1 3",
        r"\;5f → 5 · \1+;\2+;\3+;\4+;5f5g5h → 6 7 8 · \1+.;5f →",
    ),
    ";": cases(r"1;2 → 1 2 · ; → · ;;5 → 5 · \1+;;5f → 6 · ;\1+;5f → 6 · \1+;5;f; → 6"),
    "f": cases(
        r"5f\1+; → 6 · f → NAN · \1+;f → NAN · 5f → NAN · \1+;10/f → NAN · \_;5f → NAN · \12;5f → 2",
        r"\+;5f → NAN · \;52:f → 5:2 · \L;3If → 3 · \h;\;\f;3f → NAN · \g;\h;\';3f → 4 · 8\_7;f9 → 7 9",
        r"\f;5f → NAN",
        # Exactly the budget, one more, and calls once it is spent.
        rf"\{'~' * 4096};5f → 5 · \{'~' * 4097};5f → NAN · \{'~' * 4096};5f6f → 5 NAN",
        rf"\{'~' * 4095};5f6f → -5 NAN · \{'~' * 4096};5f34+ → 5 7 · \{'~' * 4097};5f34+ → NAN 7",
        rf"\{NESTED * 4096};5f → 5",
    ),
    "g": cases(
        r"\;\1+;5g → 6 · g → NAN · \;\1+;g → NAN · \1+;5g → NAN · \g;\1+;5f → 6",
        # A call of an empty body executes nothing, but it is a new call.
        rf"\{'~' * 4096};\;5f6g → 5 NAN · \{'~' * 4095};\;5f6g → -5 6 · \g;\{'~' * 4095};5f → -5",
        rf"\g;\{'~' * 4096};5f → NAN · \g~;\{'~' * 4095};5f → NAN · \g_7;\{'~' * 4096};5f → NAN",
    ),
    "h": cases(r"\;\;\1+;5h → 6 · h → NAN · \;\;\1+;h → NAN · \;\;5h → NAN · \;\;\3*;3Ih → [0 3 6]"),
    "F": cases(
        r"\-;73F → 4 · F → NAN · \-;F → NAN · \-;3F → NAN · 73F → NAN · \;73F → 3 · \__;73F → NAN",
        r"\c;2I3IF → [0 1 0 1 2] · \-;873F → 8 4",
    ),
    "G": cases(r"\;\-;73G → 4 · G → NAN · \;\-;G → NAN · \;\-;3G → NAN · \-;73G → NAN · \;\r;73G → NAN"),
    "R": cases(
        rf"{COUNTDOWN}3f → 0 · R → NAN · 5R → NAN · 51R → NAN · 50R → 5 · 5uR → NAN · 51R\1+; → NAN",
        rf"{COUNTDOWN}8f → 0 · {COUNTDOWN}9f → NAN · \;{COUNTDOWN}8g → 0 · \;{COUNTDOWN}9g → NAN",
        rf"\g;{COUNTDOWN}7f8f → 0 NAN · \10/R;5f → NAN · \0R;3If → [0 1 2]",
    ),
    "m": cases(
        r"\1+;3Im → [1 2 3] · m → NAN · \1+;5m → NAN · 3Im → NAN · um → [] · \I;3Im → NAN · \6s/;3Im → NAN",
        rf"\_;3Im → NAN · \1:;3Im → [0:1 1:1 2:1] · \;{MARKED}m → [3 1:1 3:2 1:2] · \\m;3Im → NAN",
        r"\Im$;\g;3If → NAN · \Eu1bsc;3Im → NAN",
        # 16 calls that execute the whole budget, and one instruction more.
        rf"\{'~' * 256};{SIXTEEN}m5f → [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15] NAN",
        rf"\{'~' * 256};{SIXTEEN[:-1]}1-Im5f → [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14] 5",
        rf"\{'~' * 257};{SIXTEEN}m → NAN · {COUNTDOWN}8I'm → [0 0 0 0 0 0 0 0] · {COUNTDOWN}9I'm → NAN",
    ),
    "w": cases(
        r"\1>;4Iw → [2 3] · w → NAN · \1>;5w → NAN · 3Iw → NAN · uw → [] · \6s/;3Iw → NAN · \0;3Iw → []",
        rf"\u;3Iw → [0 1 2] · \2<;{MARKED}w → [1:1 1:2]",
    ),
    "l": cases(
        r"\+;4I0l → 6 · l → NAN · \+;0l → NAN · \+;50l → NAN · 4I0l → NAN · u52:l → 5:2 · uul → []",
        r"\+;4I10/l → NAN · \-;4I0l → -6 · \b;4Iul → [0 1 2 3] · \/;4I5l → NAN · \sb;2I3l → NAN",
        rf"\b;{MARKED}ul → [3 1:1 3:2 1:2] · \b;{SIXTEEN}7Il → NAN",
    ),
    "b": cases(
        "u5b → [5] · b → NAN · 5b → NAN · uub → NAN · 55b → NAN · u52:b → [5:2]",
        f"44*1-I7b → [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 7] · {SIXTEEN}7b → NAN",
    ),
    "c": cases(
        "2I3Ic → [0 1 0 1 2] · c → NAN · 2Ic → NAN · 2I5c → NAN · 52Ic → NAN · uuc → []",
        "8IEc → [0 1 2 3 4 5 6 7 0 1 2 3 4 5 6 7] · 8I9Ic → NAN",
        f"{SIXTEEN}uc → [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15] · u52:buc → [5:2]",
    ),
    "@": cases(
        "u5b6b1@ → 6 · @ → NAN · 1@ → NAN · u5b6b0@ → 5 · u5b6b2@ → NAN · u5b6bZ@ → 6 · u5b6b2~@ → 5",
        f"u5b6b3~@ → NAN · u0@ → NAN · 51@ → NAN · 2Iu@ → NAN · {MARKED}1@ → 1:1",
    ),
    "L": cases(f"3IL → 3 · L → NAN · 5L → NAN · uL → 0 · {SIXTEEN}L → 16 · 10/L → NAN"),
    "$": cases(
        f"4I$ → 6 · $ → NAN · 5$ → NAN · u$ → 0 · u{MAX}b1b$ → NAN · u{MAX}b1bZb$ → 2147483647",
        f"{MARKED}$ → 8",
    ),
    "X": cases(f"4IX → 3 · X → NAN · 5X → NAN · uX → NAN · {MARKED}X → 3 · u1b31:b32:bX → 3:1"),
    "N": cases(f"4IN → 0 · N → NAN · 5N → NAN · uN → NAN · {MARKED}N → 1:1 · uZ2:bZ1:bN → -1:2"),
    "A": cases("4I'A → 1 · A → NAN · 5A → NAN · uA → 1 · 4IA → 0 · u02:bA → 0 · uZbA → 1"),
    "S": cases(
        f"u3b1b2bS → [1 2 3] · S → NAN · 5S → NAN · uS → [] · {MARKED}S → [1:1 1:2 3 3:2]",
        f"{SIXTEEN}VS → [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15] · 3I~S → [-2 -1 0]",
    ),
    "V": cases(f"3IV → [2 1 0] · V → NAN · 5V → NAN · uV → [] · {MARKED}V → [1:2 3:2 1:1 3]"),
    "K": cases(
        "4Iu1b0b1b0bK → [0 2] · K → NAN · 4IK → NAN · 4I1K → NAN · 14IK → NAN · 4I3IK → NAN · uuK → []",
        f"4IE0*K → [] · {MARKED}u0bZb05:b5bK → [1:1 1:2]",
    ),
    "I": cases(
        f"3I → [0 1 2] · I → NAN · uI → NAN · 0I → [] · ZI → [] · {MIN}I → []",
        f"{SIXTEEN} → [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15] · 44*1+I → NAN · {MAX}I → NAN",
        "32:I → [0 1 2]",
    ),
    "Y": cases(
        "55Y → 1 · Y → NAN · 5Y → NAN · 56Y → 0 · 552:Y → 0 · 52:52:Y → 1 · 3I3IY → 1 · 3I2IY → 0 · uuY → 1",
        "u0Y → 0 · 0uY → 0 · u5bu52:bY → 0 · 5u5bY → 0 · 10/10/Y → NAN",
    ),
    ":": cases(
        "73: → 7:3 · : → NAN · 3: → NAN · 79: → 7:9 · 7t: → NAN · 7Z: → NAN · 73:0: → 7 · 73:4: → 7:4",
        "3I2: → [0:2 1:2 2:2] · 3I3I: → [0 1:1 2:2] · 73I: → [7 7:1 7:2] · 3I2I: → NAN · u2bt: → NAN",
        f"ut: → [] · 1{SIXTEEN}: → NAN · 734:: → 7:3 · {MIN}9: → -2147483648:9",
    ),
    '"': cases(f'73:" → 3 · " → NAN · 7" → 0 · 73:"" → 0 · {MARKED}" → [0 1 2 2] · u" → [] · 10/" → NAN'),
}
"""At least three cases per instruction: normal, missing inputs, at a bound."""
