#!/usr/bin/env python3
"""Writes tests/golden/tokenizer: small tokenizers of every family's pipeline, with ids and decoded text by `tokenizers`.

Each NAME.json holds a tokenizer.json that is trained here on made-up text (so it is small, but its normalizer,
pre-tokenizer, model options, decoder, post-processor and added tokens are those of the family), and what the library
makes of texts.json, followed by the family's own texts with its added tokens. The library's trainer breaks ties by
chance, so a second run writes other vocabularies, which serve as well.

    pip install tokenizers==0.23.3
    python3 tools/make_tokenizer_goldens.py
"""
import argparse
import itertools
import json
import pathlib
import random
import struct

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "tokenizer"

ONLY = set()  # names of --only

WORDS = """the of and to in is that it was for on are as with his they at be this have from or one had by word but not
what all were we when your can said there use an each which she do how their if will up other about out many then them
these so some her would make like him into time has look two more write go see number no way could people""".split()

HARD = [
    "", " ", "  ", "a", " a", "a ", "  a  b  ", "\n", "\n\n\n", "\r\n", "a\r\n\r\nb", "\t\t x", " \n \n  y", "a\n",
    "Hello, World! It's 2024; we've paid $1,234.56 (50%).", "I'LL don't CAN'T you'Re 'S 's it'\u017f \u2019s",
    "don'tdon'T''s'''", "3.14159 1000000 12 123 1234 12345678901234567890", "x_1 snake_case CamelCaseHTTPServer a.b/c",
    "for (int i = 0; i < 10; ++i) {\n\t\tx += y[i];\n}\n", "def f(x):\n    return x + 1\n\n\nprint(f(2))   \n",
    "https://example.com/a?b=c&d=%20#e", "!!! ??? ... --- *** === <<>> ~~~ \"\"\" ''' ```", "a" * 300, "ab" * 150,
    " " * 40 + "x", "x" + " " * 23 + "y", "\n" * 35 + "z", "\t" * 9, "abcdefghijklmnopqrstuvwxyz" * 12, "1" * 50,
    "caf\u00e9 cafe\u0301 n\u0303 \u00c5\u212b \u1e69 s\u0323\u0307 s\u0307\u0323 q\u0307\u0323 \u0344 \u03d3\u0301",
    "\uac00\ub098 \u1100\u1161\u11a8 \u1112\u1161\u11ab \u0915\u094d\u0937\u093f \u0e19\u0e49\u0e33 \u0ba8\u0bbf",
    "\u4f60\u597d\uff0c\u4e16\u754c\u30022024\u5e74 \u3053\u3093\u306b\u3061\u306f\u30ab\u30bf\u30ab\u30ca \u5341",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u0661\u0662\u0663 \u05e9\u05dc\u05d5\u05dd",
    "\u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440 \u0395\u03bb\u03bb\u03b7\u03bd\u03b9\u03ba\u03ac \u03a3\u03c2",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f44d\U0001f3fd \U0001f3f3\ufe0f\u200d\U0001f308 \U0001f1e9\U0001f1ea 1\ufe0f\u20e3",
    "a\u00a0b\u2003c\u3000d\u0085e\u2028f\u2029g\u200bh\u200di\ufeffj\u202fk\u1680l\u180em\u205fn",
    "\x00\x01\x1b[0m\x7f\x0b\x0c\x1c\x1f \x80\x9f", "\ufffd\ufffe\uffff \ue000 \U000e0001 \U0010ffff \U0001d7d8\U0001d400",
    "\u0130stanbul \u0131 \u00df\u1e9e \u01c5 \ufb01\ufb03 \u2126 \u212a \u33a3 \u00b2\u00b3\u00b9\u00bd \u2167 \u2460",
    "\u24b6\u24d0 \u0b72 \u09f4 \u0660\u0966\u0e50 \u19da \U00010107 \U0001f100 \U0001f130 \U00011de0 \U00016ff4",
    "\u2581 \u2581\u2581a a\u2581b \u0120a \u010a <0x0A> <0xE2><0x82> </w>", "\u0902\u1715\u07fd\u0898\U00011935\U00011930\u1ace\u0301",
    "\ua7cb \u1c89 \U00010d50 \U00016ea0 \u2c2f", "<|im_start|>user\nHi<|im_end|>\n<|endoftext|><s></s><unk><bos>[INST]",
    "<|IM_START|> < s > <|im_start| >", "\u2e43\u2e52\u0a76\U0001e95e\u166d\u061d$+<=>^`|~",
]


def made_up_text(rng):
    """A line of words, numbers, signs, white space and letters of many scripts."""
    blocks = [(0x4E00, 0x9FFF), (0x3040, 0x30FF), (0xAC00, 0xD7A3), (0x600, 0x6FF), (0x900, 0x97F), (0x400, 0x4FF),
              (0x370, 0x3FF), (0xA1, 0x24F), (0x300, 0x36F), (0x1F300, 0x1FAFF), (0x2010, 0x206F), (0xE00, 0xE7F)]
    spaces = [" ", "  ", "\n", "\t", "\n\n", "\r\n", "\u00a0", "\u3000", " \n", "    "]
    out = []
    for _ in range(rng.randint(2, 10)):
        kind = rng.random()
        if kind < 0.45:
            word = rng.choice(WORDS)
            out.append(rng.choice([word, word, word.capitalize(), word.upper(), word + "'s"]))
        elif kind < 0.6:
            out.append(rng.choice(spaces))
        elif kind < 0.7:
            out.append(str(rng.randrange(10 ** rng.randint(1, 7))))
        elif kind < 0.8:
            out.append("".join(rng.choice("!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~") for _ in range(rng.randint(1, 4))))
        else:
            first, last = rng.choice(blocks)
            out.append("".join(chr(rng.randint(first, last)) for _ in range(rng.randint(1, 6))))
        if rng.random() < 0.6:
            out.append(" ")
    return "".join(out)


RNG = random.Random(2024)
CORPUS = [made_up_text(RNG) for _ in range(1500)] + [" ".join(RNG.choices(WORDS, k=20)) for _ in range(800)]
TEXTS = HARD + [made_up_text(RNG) for _ in range(30)]

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
QWEN = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN35 = QWEN.replace(r"\p{L}+", r"[\p{L}\p{M}]+").replace(r"^\s\p{L}", r"^\s\p{L}\p{M}")
LLAMA3 = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
ANY_START = r"[^\r\n\p{L}\p{N}]?"
CASED = ANY_START + UPPER + "*" + LOWER + "+TAIL|" + ANY_START + UPPER + "+" + LOWER + "*TAIL"
CASED_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = CASED.replace("TAIL", "") + r"|\p{N}" + CASED_TAIL
O200K = CASED.replace("TAIL", CONTRACTIONS + "?") + r"|\p{N}{1,3}" + CASED_TAIL
POSSESSIVE = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
              r"|\s+(?!\S)|\s")
DEEPSEEK = ("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
            "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+")
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
ODD = (r"(?i:don)|(?<=a)b|^\p{Lu}|[\p{Han}&&[^\u4e00-\u4e09]]{2}?|\S+$|.{2,4}?x|[a-c\]\-\u0065\x{1F600}]|\bthe\b|\h{2,}"
       r"|\p{^L}\P{^Nd}")


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert=invert)


def bytes_after(*steps):
    return pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def gpt2_words(add_prefix_space=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)


def special(content, **flags):
    return AddedToken(content, **{"special": True, "normalized": False, **flags})


def plain(content, **flags):
    return AddedToken(content, **{"special": False, "normalized": False, **flags})


def template(before, after=None):
    def make(tokenizer):
        tokens = [t for t in (before, after) if t]
        return processors.TemplateProcessing(
            single=" ".join([before, "$A"] + ([after] if after else [])), pair=f"{before} $A {before} $B",
            special_tokens=[(t, tokenizer.token_to_id(t)) for t in tokens])
    return make


def roberta(first, last):
    return lambda t: processors.RobertaProcessing((last, t.token_to_id(last)), (first, t.token_to_id(first)))


def template_after(token):
    return lambda t: processors.TemplateProcessing(single=f"$A {token}", special_tokens=[(token, t.token_to_id(token))])


def charsmap():
    """A small table of SentencePiece's kind: white space, half-width and full-width forms, ligatures, some compositions."""
    table = {"\t": " ", "\n": " ", "\r": " ", "\u00a0": " ", "\u3000": " ", "\u200b": "", "\ufb01": "fi", "\ufb03": "ffi",
             "\u2126": "\u03a9", "\u00bd": "1\u20442", "\u00b2": "2", "e\u0301": "\u00e9", "n\u0303": "\u00f1", "\u1100\u1161": "\uac00",
             "\u33a3": "cm3", "\u212b": "\u00c5", "\u1e9e\u0301": "SS", "\uff76\uff9e": "\u30ac"}
    table.update({chr(c): chr(c - 0xFEE0) for c in range(0xFF01, 0xFF5F)})
    texts, places = b"", {}
    for key, value in table.items():
        places[key.encode()] = len(texts)
        texts += value.encode() + b"\0"
    units = double_array(places)
    blob = struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + texts
    return normalizers.Precompiled(blob)


def double_array(values):
    """A Darts-clone trie: the child for byte b of a node with offset o stands at (node ^ o) ^ b, its leaf at node ^ o."""
    units, used = {0: 0}, {0}

    def place(node, prefix):
        keys = {key[len(prefix)] for key in values if key.startswith(prefix) and len(key) > len(prefix)}
        leaf = prefix in values
        labels = sorted(keys) + ([0] if leaf else [])
        base = next(b for b in itertools.count(1) if all((b ^ label) not in used for label in labels))
        used.update(base ^ label for label in labels)
        units[node] |= (node ^ base) << 10 | (1 << 8 if leaf else 0)
        if leaf:
            units[base] = values[prefix] | 1 << 31
        for key in sorted(keys):
            units[base ^ key] = key
            place(base ^ key, prefix + bytes([key]))

    place(0, b"")
    return [units.get(i, 0) for i in range((max(units) | 0xFF) + 1)]  # whole blocks, so that no lookup leaves the array


def texts_with(added):
    """Texts in which the added tokens stand in all kinds of company."""
    if not added:
        return []
    rng = random.Random(len(added))
    texts = []
    for _ in range(24):
        parts = []
        for _ in range(rng.randint(1, 5)):
            parts.append(rng.choice(["", " ", "  ", "\n", "word", " the ", "A", "\u4e2d", "x\u0301", "1"]))
            content = rng.choice(added).content
            parts.append(content if rng.random() < 0.85 else content[: rng.randint(1, len(content))])
        texts.append("".join(parts) + rng.choice(["", " ", "z", "\n\n"]))
    return texts


def write(name, tokenizer, added=(), post=None, patch=None):
    document = json.loads(tokenizer.to_str())
    if patch:
        patch(document)
    tokenizer = Tokenizer.from_str(json.dumps(document))
    for token in added:
        (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
    if post:
        tokenizer.post_processor = post(tokenizer)
    if ONLY and name not in ONLY:
        return
    own = texts_with(list(added))
    golden = {"tokenizer": json.loads(tokenizer.to_str()), "texts": own, "ids": [], "plain_ids": [], "decoded": [], "skipped": []}
    if document["model"].get("type") is None:
        golden["tokenizer"]["model"].pop("type")
    for text in TEXTS + own:
        ids = tokenizer.encode(text).ids
        golden["ids"].append(ids)
        golden["plain_ids"].append(tokenizer.encode(text, add_special_tokens=False).ids)
        golden["decoded"].append(tokenizer.decode(ids, skip_special_tokens=False))
        golden["skipped"].append(tokenizer.decode(ids, skip_special_tokens=True))
    (OUT / f"{name}.json").write_text(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def byte_level(name, pre_tokenizer, normalizer=None, added=(), post=None, patch=None, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    suffix = {"end_of_word_suffix": model["end_of_word_suffix"]} if "end_of_word_suffix" in model else {}
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=460 + (100 if suffix else 0), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False, **suffix))
    write(name, tokenizer, added, post, patch)


REPLACE = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
WITHOUT_STRIP = {"type": "Sequence", "decoders": [REPLACE, {"type": "ByteFallback"}, {"type": "Fuse"}]}
LLAMA_DECODER = {"type": "Sequence", "decoders": WITHOUT_STRIP["decoders"] + [{"type": "Strip", "content": " ", "start": 1, "stop": 0}]}


def sentence_piece(name, decoder, normalizer=None, pre_tokenizer=None, added=(), post=None, patch=None, byte_fallback=True):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=byte_fallback))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")  # for training only
    byte_tokens = [f"<0x{i:02X}>" for i in range(256)] if byte_fallback else []
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=620 if byte_fallback else 400, special_tokens=["<unk>", "<s>", "</s>"] + byte_tokens, limit_alphabet=120,
        show_progress=False))

    def finish(document):
        document["pre_tokenizer"] = json.loads(pre_tokenizer.__getstate__()) if pre_tokenizer else None
        document["decoder"] = decoder
        document["added_tokens"] = []
        if patch:
            patch(document)

    write(name, tokenizer, added, post, finish)


def unigram(name, normalizer, pre_tokenizer, decoder, added, post=None, byte_fallback=False):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder = normalizer, pre_tokenizer, decoder
    latin = ["".join(c for c in line if c < "\u0180") for line in CORPUS]
    tokenizer.train_from_iterator(latin, trainers.UnigramTrainer(
        vocab_size=600, unk_token="<unk>", special_tokens=["<pad>", "</s>", "<unk>"], show_progress=False))

    def finish(document):
        model = document["model"]
        document["added_tokens"] = []
        model["vocab"] = [[piece, round(score, 4)] for piece, score in model["vocab"]]
        model["vocab"] += [[f"<0x{i:02X}>", 0] for i in range(256)] if byte_fallback else []
        model["byte_fallback"] = byte_fallback

    write(name, tokenizer, added, post, finish)


def word_piece(name, normalizer, pre_tokenizer, decoder, added, post=None, **options):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", **options))
    tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder = normalizer, pre_tokenizer, decoder
    prefix = options.get("continuing_subword_prefix", "##")
    tokenizer.train_from_iterator(CORPUS, trainers.WordPieceTrainer(
        vocab_size=500, special_tokens=[token.content for token in added], limit_alphabet=150, show_progress=False,
        continuing_subword_prefix=prefix))
    write(name, tokenizer, added, post)


def without_type(document):
    document["model"].pop("type")
    document["pre_tokenizer"].pop("use_regex")


def with_holes(document):
    vocab = document["model"]["vocab"]
    for token in ("<0xE2>", "<0xC1>", "<0xF0>"):
        vocab["unused" + token] = vocab.pop(token)


def without_fusing(document):
    with_holes(document)
    document["model"]["fuse_unk"] = False


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", help="write these alone, so that the others stay as they are")
    ONLY.update(parser.parse_args().only or ())
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "texts.json").write_text(json.dumps(TEXTS, indent=0) + "\n")
    end = special("<|endoftext|>")
    chat = [end, special("<|im_start|>"), special("<|im_end|>")]
    sp = [special("<unk>"), special("<s>"), special("</s>")]
    llama_text = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    digits = lambda: pre_tokenizers.Digits(individual_digits=True)
    nfc = normalizers.NFC()

    byte_level("gpt2", gpt2_words(), added=[special("<|endoftext|>", normalized=True)], patch=without_type,
               post=lambda t: processors.ByteLevel(trim_offsets=False))
    byte_level("roberta", gpt2_words(add_prefix_space=True), post=roberta("<s>", "</s>"),
               added=[special("<s>", normalized=True), special("</s>", normalized=True), special("<mask>", lstrip=True)])
    byte_level("neox", gpt2_words(), nfc, [end] + [plain(" " * n, normalized=True) for n in range(24, 1, -1)])
    byte_level("qwen", bytes_after(split(QWEN)), nfc, chat + [plain("<tool_call>"), plain("<think>"), plain("</think>")],
               post=lambda t: processors.ByteLevel(trim_offsets=False))
    byte_level("qwen35", bytes_after(split(QWEN35)), nfc, chat)
    byte_level("llama3", bytes_after(split(LLAMA3)), added=[special("<|begin_of_text|>"), special("<|eot_id|>")], ignore_merges=True,
               post=lambda t: processors.Sequence([processors.ByteLevel(trim_offsets=False), template("<|begin_of_text|>")(t)]))
    byte_level("phi4", bytes_after(split(LLAMA3, "removed", True)),
               added=[special(c, lstrip=True, rstrip=True) for c in ("<|endoftext|>", "<|im_start|>", "<|im_sep|>")])
    byte_level("possessive", bytes_after(split(POSSESSIVE)), added=[end])
    byte_level("tekken", bytes_after(split(TEKKEN)), added=[special("<s>"), special("[INST]")], post=template("<s>"), ignore_merges=True)
    byte_level("o200k", bytes_after(split(O200K)), added=[special("<|start|>"), special("<|end|>")])
    byte_level("deepseek_v3", bytes_after(split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"), split(DEEPSEEK)),
               normalizers.Sequence([]), [special("<\uff5cbegin\u2581of\u2581sentence\uff5c>"), plain("<\uff5cUser\uff5c>"),
                                          plain("<think>", normalized=True)], template("<\uff5cbegin\u2581of\u2581sentence\uff5c>"))
    byte_level("deepseek_llm", bytes_after(
        split(r"[\r\n]"), split("\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u0370-\u0373\u0400-\u0481]+"),
        split("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"), split(r"\s+$"),
        split("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"), digits()), normalizers.Sequence([]), [plain("<|EOT|>", normalized=True)])
    byte_level("smollm2", pre_tokenizers.Sequence([digits(), gpt2_words()]), added=chat + [special("<repo_name>")])
    byte_level("command_r", pre_tokenizers.Sequence([digits(), gpt2_words()]), nfc, [special("<BOS_TOKEN>")], template("<BOS_TOKEN>"))
    byte_level("falcon", pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), gpt2_words(),
                                                  pre_tokenizers.Digits(), split("[0-9][0-9][0-9]")]), added=[end])
    byte_level("clip", pre_tokenizers.Sequence([split(CLIP, "removed", True), gpt2_words()]),
               normalizers.Sequence([nfc, normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]),
               [special("<|startoftext|>", normalized=True), end], roberta("<|startoftext|>", "<|endoftext|>"), end_of_word_suffix="</w>")
    byte_level("bloom", bytes_after(split(BLOOM)), added=[special("<s>")])
    byte_level("odd_regex", bytes_after(split(ODD)), normalizers.Sequence([nfc, normalizers.Lowercase()]))
    byte_level("nfkc", bytes_after(pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation("merged_with_previous")),
               normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(), normalizers.Lowercase()]),
               [plain("word", single_word=True), plain("\u0130X", normalized=True), plain("the", single_word=True, normalized=True)])
    byte_level("nfd", bytes_after(pre_tokenizers.Split(" ", "merged_with_next"), pre_tokenizers.Punctuation("merged_with_next"),
                                  pre_tokenizers.Punctuation("removed")),
               normalizers.NFD(), [plain("\n\n", lstrip=True, rstrip=True), plain("  ")])
    byte_level("nfkd", bytes_after(pre_tokenizers.WhitespaceSplit(), split(r"\w+\b|\W", "contiguous"),
                                   split("a*b?", "merged_with_previous")), normalizers.NFKD())

    sentence_piece("llama2", LLAMA_DECODER, llama_text, post=template("<s>"),
                   added=[special(c, normalized=True) for c in ("<unk>", "<s>", "</s>")])
    sentence_piece("mistral", LLAMA_DECODER, llama_text, added=sp, post=template("<s>", "</s>"))
    sentence_piece("phi3", LLAMA_DECODER, llama_text, post=template("<s>"),
                   added=sp[:2] + [special("</s>", rstrip=True), special("<|user|>", rstrip=True), special("<|end|>", rstrip=True)])
    sentence_piece("mistral_v3", LLAMA_DECODER, None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
                   sp + [special("[INST]"), special("[/INST]")], template("<s>"))
    sentence_piece("gemma", WITHOUT_STRIP, normalizers.Replace(" ", "\u2581"), pre_tokenizers.Split(" ", "merged_with_previous"),
                   sp + [special("<bos>")] + [plain("\n" * n) for n in range(1, 32)] + [plain("\u2581" * n) for n in range(2, 32)]
                   + [plain("\t\t"), plain("<table>")], template("<bos>"))
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
    sentence_piece("metaspace", metaspace, None, pre_tokenizers.Metaspace(), sp, byte_fallback=False)
    sentence_piece("metaspace_first", {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": True}, None,
                   pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="first")]),
                   sp, byte_fallback=False)
    sentence_piece("byte_holes", LLAMA_DECODER, llama_text, added=sp, patch=with_holes)
    sentence_piece("unfused", {**metaspace, "prepend_scheme": "never"}, None, pre_tokenizers.Metaspace(prepend_scheme="never"),
                   sp, patch=without_fusing)

    metaspace_always = pre_tokenizers.Metaspace()
    unigram("t5", normalizers.Sequence([charsmap(), normalizers.Strip(left=False), normalizers.Replace(Regex(" {2,}"), "\u2581")]),
            metaspace_always, decoders.Metaspace(), [special("</s>"), special("<extra_id_0>", lstrip=True, rstrip=True)],
            template_after("</s>"))
    unigram("xlm_r", charsmap(), pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace_always]), decoders.Metaspace(),
            [special("<s>"), special("</s>"), special("<mask>", lstrip=True)], template("<s>", "</s>"))
    unigram("unigram_bytes", normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents()]), metaspace_always,
            decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]), [], byte_fallback=True)
    bert = [special(f"[{name}]") for name in ("PAD", "UNK", "CLS", "SEP", "MASK")]
    word_piece("bert", normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer(), decoders.WordPiece(), bert,
               lambda t: processors.BertProcessing(("[SEP]", t.token_to_id("[SEP]")), ("[CLS]", t.token_to_id("[CLS]"))))
    word_piece("bert_cased", normalizers.BertNormalizer(lowercase=False), pre_tokenizers.BertPreTokenizer(),
               decoders.WordPiece(cleanup=False), bert, template("[CLS]", "[SEP]"))
    word_piece("word_piece", normalizers.BertNormalizer(clean_text=False, strip_accents=True, lowercase=False),
               pre_tokenizers.CharDelimiterSplit(" "), decoders.WordPiece(prefix="@@"), [special("[UNK]")],
               max_input_chars_per_word=20, continuing_subword_prefix="@@")

    word_level = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    word_level.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    word_level.train_from_iterator(CORPUS, trainers.WordLevelTrainer(vocab_size=300, special_tokens=["[UNK]", "[BOS]"], show_progress=False))
    write("word_level", word_level)
    for name, affix in (("prefix", {"continuing_subword_prefix": "##"}), ("suffix", {"end_of_word_suffix": "</w>"})):
        tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        if name == "suffix":
            tokenizer.decoder = decoders.BPEDecoder()
        tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
            vocab_size=400, special_tokens=["[UNK]"], limit_alphabet=120, show_progress=False, **affix))
        write(name, tokenizer)


if __name__ == "__main__":
    main()
