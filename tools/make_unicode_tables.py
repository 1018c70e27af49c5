#!/usr/bin/env python3
"""Writes src/text/tokenizer/unicode_tables.cc and unicode_categories.txt.

The `tokenizers` library mixes several Unicode versions: its regular expressions follow Unicode 16, its `Punctuation`
and its normal forms follow Unicode 9, what it strips as accents or noise is older still, its digits and lower case
follow Unicode 17. General categories come from unicodedata2 16.0.0; everything else is asked of the library itself, code point by code point.

    pip install unicodedata2==16.0.0 tokenizers==0.23.3
    python3 tools/make_unicode_tables.py > src/text/tokenizer/unicode_tables.cc
"""
import pathlib
import textwrap

import unicodedata2 as unicode
from tokenizers import Regex, normalizers, pre_tokenizers

assert unicode.unidata_version == "16.0.0", unicode.unidata_version

CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
SCRIPTS = "Arabic Cyrillic Greek Han Hangul Hiragana Katakana Khmer Lao Latin Myanmar Thai".split()
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def regex_members(pattern):
    """The code points that the library's regex engine matches with `pattern`."""
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    found = set()
    for i in range(0, len(CODE_POINTS), 4096):
        text = "".join(map(chr, CODE_POINTS[i : i + 4096]))
        for piece, _ in split.pre_tokenize_str(text):
            found.update(map(ord, piece))
    return found


def split_members(pre_tokenizer):
    """The code points that `pre_tokenizer` cuts out of a word."""
    return {c for c in CODE_POINTS if len(pre_tokenizer.pre_tokenize_str("x" + chr(c) + "x")) > 1}


def removed_by(normalizer):
    return {c for c in CODE_POINTS if normalizer.normalize_str("a" + chr(c) + "b") == "ab"}


def bert(**options):
    off = dict.fromkeys(("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"), False)
    return normalizers.BertNormalizer(**{**off, **options})


def ranges(code_points):
    result = []
    for c in sorted(code_points):
        if result and result[-1][1] == c - 1:
            result[-1][1] = c
        else:
            result.append([c, c])
    return result


def write(declaration, items):
    print(f"const std::array<{declaration[0]}, {len(items)}> {declaration[1]} = {{{{")
    line = ""
    for item in items:
        if len(line) + len(item) > 116:
            print("   " + line)
            line = ""
        line += " " + item + ","
    print("   " + line)
    print("}};\n")


def write_ranges(name, code_points):
    write(("CodePointRange", name), ["{0x%X, 0x%X}" % tuple(r) for r in ranges(code_points)])


def category_runs():
    runs, last = [], None
    for c in range(0x110000):
        category = CATEGORIES.index(unicode.category(chr(c)))
        if category != last:
            runs.append("%X" % (c << 5 | category))
            last = category
    return runs


def unnormalized():
    """Code points with a combining class or a decomposition that the library's older tables do not know."""
    forms = [(form, getattr(normalizers, form)()) for form in ("NFC", "NFD", "NFKC", "NFKD")]
    found = set()
    for c in CODE_POINTS:
        probes = [p.format(chr(c)) for p in ("{}", "a\u0301{}\u0323", "a{}\u0301\u0323\u3099", "a\u0334{}")]
        if any(n.normalize_str(p) != unicode.normalize(form, p) for form, n in forms for p in probes):
            found.add(c)
            decomposition = unicode.decomposition(chr(c))
            if decomposition and not decomposition.startswith("<"):
                found.add(int(decomposition.split()[0], 16))
    return found


def lowercase_runs():
    """Runs [first, last] that are lowercased by adding one number, in steps of one or of two."""
    lower = normalizers.Lowercase()
    runs = []
    for c in CODE_POINTS:
        mapped = lower.normalize_str(chr(c))
        if len(mapped) != 1:
            assert (c, mapped) == (0x130, "i\u0307")
            continue
        delta = ord(mapped) - c
        if delta == 0:
            continue
        run = runs[-1] if runs else None
        if run and run[2] == delta and c - run[1] <= 2 and (run[3] == c - run[1] or run[0] == run[1]):
            run[3], run[1] = c - run[1], c
        else:
            runs.append([c, c, delta, 1])
    return ["{0x%X, 0x%X, %d, %d}" % tuple(r) for r in runs]


print("// Made by tools/make_unicode_tables.py; do not edit.")
print("// clang-format off")
print('#include "text/tokenizer/unicode_tables.h"\n')
print("namespace spillway::text {\n")
categories = pathlib.Path(__file__).parent.parent / "src" / "text" / "tokenizer" / "unicode_categories.txt"
categories.write_text(textwrap.fill(" ".join(category_runs()), 120) + "\n")
in_category = lambda test: {c for c in CODE_POINTS if test(unicode.category(chr(c)))}
word = in_category(lambda k: k[0] in "LM" or k in ("Nd", "Nl", "Pc"))
onig_word, rust_word = regex_members(r"\w"), set()
for c in CODE_POINTS:
    if pre_tokenizers.Whitespace().pre_tokenize_str("x" + chr(c))[0][0] != "x":
        rust_word.add(c)
assert not word - onig_word and not word - rust_word
write_ranges("kRegexWordExtra", onig_word - word)
write_ranges("kWordExtra", rust_word - word)
write_ranges("kNumericExtra", split_members(pre_tokenizers.Digits()) - in_category(lambda k: k[0] == "N"))
punctuation, is_p = split_members(pre_tokenizers.Punctuation("isolated")), in_category(lambda k: k[0] == "P")
write_ranges("kPunctuationExtra", punctuation - is_p)
write_ranges("kNotPunctuation", is_p - punctuation)
write_ranges("kUnnormalized", unnormalized())
for name, normalizer, members in (
        ("Nonspacing", bert(strip_accents=True), in_category(lambda k: k == "Mn")),
        ("Mark", normalizers.StripAccents(), in_category(lambda k: k[0] == "M"))):
    removed = removed_by(normalizer)
    write_ranges(f"k{name}Extra", removed - members)
    write_ranges(f"kNot{name}", members - removed)
write_ranges("kNoise", removed_by(bert(clean_text=True)))
write(("LowercaseRun", "kLowercaseRuns"), lowercase_runs())
script_ranges = []
for index, script in enumerate(SCRIPTS):
    script_ranges += ["{%d, {0x%X, 0x%X}}" % (index, *r) for r in ranges(regex_members(r"\p{%s}" % script))]
write(("std::string_view", "kScriptNames"), ['"%s"' % s for s in SCRIPTS])
write(("ScriptRange", "kScriptRanges"), script_ranges)
print("}  // namespace spillway::text")
