"""Writes tests/golden/export/families.json: what llama.cpp's converter makes of a tiny model of each family.

Run with tools/export_requirements.txt installed, and the sources of llama.cpp unpacked, which that file names:
    python tools/make_gguf_family_goldens.py LLAMA_CPP_FOLDER [FILE [FAMILY ...]]
Families that are named are made again, the others stay.
A family has the `config` as transformers saves it, the shapes of its `weights`, the `metadata` and, of each tensor, its
shape, its encoding and the checksum (XXH3) of its bytes in each type of file, and the encoding that llama-quantize gives
it in a Q4_K_M file made of the f32 one. The weights follow from their names
(`values_of`), so that no file holds them; src/model/gguf/families_test.cc computes the same ones. The tokenizer is left
out: tools/make_export_goldens.py has those. Some have a LoRA adapter, converted in f32.
"""
import json
import pathlib
import runpy
import sys
import tempfile
import unittest.mock

import numpy as np
import torch
import xxhash
from safetensors import safe_open
from safetensors.torch import save_file

from gguf_family_cases import ADAPTERS, EXPERT_ADAPTERS, PUBLISHED, RAW, SIZES, STACKED, models

llama_cpp = pathlib.Path(sys.argv[1]).resolve()
default = pathlib.Path(__file__).parent.parent / "tests" / "golden" / "export" / "families.json"
out = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else default
sys.path.insert(0, str(llama_cpp))
sys.path.insert(0, str(llama_cpp / "gguf-py"))
import conversion  # noqa: E402
import cyllama.llama.llama_cpp as quantiser  # noqa: E402
import gguf  # noqa: E402
from conversion.base import ModelBase, ModelType, TextModel  # noqa: E402
from conversion.llama import LlamaModel  # noqa: E402
from gguf.scripts.gguf_new_metadata import MetadataDetails, copy_with_new_metadata  # noqa: E402


def stacked(shapes):
    """The shapes with gates and ups, and downs, of all experts of a layer in one tensor each."""
    result = {}
    for name, shape in shapes.items():
        module, _, rest = name.partition(".experts.")
        if not rest:
            result[name] = shape
        elif rest.endswith("down_proj.weight"):
            result.setdefault(f"{module}.experts.down_proj", [0, *shape])[0] += 1
        elif rest.endswith("up_proj.weight"):
            result.setdefault(f"{module}.experts.gate_up_proj", [0, 2 * shape[0], shape[1]])[0] += 1
    return result


def values_of(name, shape):
    """Numbers in [-1, 1) that f16 holds and bf16 rounds, from the tensor's name."""
    seed = 0
    for byte in name.encode():
        seed = (seed * 31 + byte) % 2**32
    index = np.arange(1, int(np.prod(shape)) + 1, dtype=np.uint64) + np.uint64(seed)
    mixed = (index * np.uint64(2654435761)) % np.uint64(2**32)
    return np.asarray(((mixed >> np.uint64(21)).astype(np.float32) - 1024) / np.float32(1024)).reshape(shape)


def is_of_text(name):
    return "vision" not in name and "projector" not in name


def json_value(value):
    if isinstance(value, (list, tuple, np.ndarray)):
        return [json_value(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def described(file, file_type):
    """The metadata, but for names and the type of the file, and the tensors."""
    reader = gguf.GGUFReader(file)
    metadata = {
        key: json_value(field.contents())
        for key, field in reader.fields.items()
        if not key.startswith(("GGUF.", "general.name", "general.size_label", "general.base_model", "general.file_type"))
    }
    tensors = {
        tensor.name: dict(
            shape=[int(n) for n in reversed(tensor.shape)],
            **{file_type: f"{tensor.tensor_type.name} {xxhash.xxh3_64_hexdigest(tensor.data.tobytes())}"},
        )
        for tensor in reader.tensors
    }
    return dict(metadata=metadata, tensors=tensors)


TYPES = dict(
    f32=gguf.LlamaFileType.ALL_F32,
    f16=gguf.LlamaFileType.MOSTLY_F16,
    bf16=gguf.LlamaFileType.MOSTLY_BF16,
    q8_0=gguf.LlamaFileType.MOSTLY_Q8_0,
)


def no_vocabulary(self):
    pass


def turned_rows(part):
    """LlamaModel.permute for heads of which the first `part` turn. The converter's own interleaves the halves of whole
    heads, so that llama.cpp, which turns the first rows, would turn other pairs than the model does."""

    def permute(weights, heads, kv_heads):
        heads = heads if kv_heads is None else kv_heads
        rows = weights.reshape(heads, weights.shape[0] // heads, *weights.shape[1:])
        turned = int(rows.shape[1] * part)
        order = [i // 2 + i % 2 * turned // 2 for i in range(turned)] + list(range(turned, rows.shape[1]))
        return rows[:, order].reshape(weights.shape)

    return staticmethod(permute)


def exact_exp(values):
    """Returns torch.exp with each number rounded once: torch's own, of a matrix, has other last bits on other CPUs."""
    return values.to(torch.float64).exp().to(torch.float32)


def raw_config(folder, is_mistral_format=False):
    return json.loads((pathlib.Path(folder) / "config.json").read_text())


def convert(folder, file, type_name):
    hparams = ModelBase.load_hparams(folder, False)
    made_for = conversion.get_model_class(conversion.base.get_model_architecture(hparams, ModelType.TEXT), mmproj=False)
    made_for.no_mtp = True  # what predicts several tokens stays away, as with --no-mtp
    model = made_for(folder, TYPES[type_name], file)
    for one in (model, getattr(model, "impl", model)):
        type(one).set_vocab = no_vocabulary
    part = 0.5 if hparams["architectures"] == ["BambaForCausalLM"] else 1
    turned, rates = (unittest.mock.patch.object(LlamaModel, "permute", turned_rows(part)), unittest.mock.patch.object(torch, "exp", exact_exp))
    with turned, rates:
        model.write()
    return described(file, type_name)


def for_quantiser(file):
    """The file with an epsilon of RMS norms, which cyllama's llama.cpp needs of Nemotron-H and later ones do not."""
    reader = gguf.GGUFReader(file)
    architecture = reader.fields["general.architecture"].contents()
    key = gguf.Keys.Attention.LAYERNORM_RMS_EPS.format(arch=architecture)
    if key in reader.fields:
        return file
    copy = file.with_name("copy.gguf")
    copy.unlink(missing_ok=True)
    epsilon = {key: MetadataDetails(gguf.GGUFValueType.FLOAT32, 1e-5)}
    copy_with_new_metadata(reader, gguf.GGUFWriter(copy, architecture), epsilon, [])
    return copy


def add_mixture_types(file, tensors):
    """Adds the encoding of each tensor in a Q4_K_M file that llama-quantize makes of `file`."""
    parameters = quantiser.LlamaModelQuantizeParams()
    parameters.ftype = gguf.LlamaFileType.MOSTLY_Q4_K_M.value
    quantised = file.with_name("quantised.gguf")
    quantiser.model_quantize(str(for_quantiser(file)), str(quantised), parameters)
    for tensor in gguf.GGUFReader(quantised).tensors:
        tensors[tensor.name]["q4_k_m"] = tensor.tensor_type.name
    quantised.unlink()


def write_adapter(folder, name, modules, weights):
    folder.mkdir()
    rank, factors = 2, {}
    for key, shape in weights.items():
        module = key.removesuffix(".weight")
        if not module.endswith(tuple(modules)):
            continue
        for which, sizes in (("A", [rank, shape[1]]), ("B", [shape[0], rank])):
            factor = f"base_model.model.{module}.lora_{which}.weight"
            factors[factor] = torch.from_numpy(values_of(factor, sizes))
    save_file(factors, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    settings = dict(peft_type="LORA", task_type="CAUSAL_LM", r=rank, lora_alpha=6, lora_dropout=0.0, bias="none")
    settings.update(target_modules=modules, base_model_name_or_path=name, fan_in_fan_out=False, inference_mode=True)
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    return settings, {key: list(value.shape) for key, value in factors.items()}


def write_expert_adapter(folder, name, experts, weights):
    """An adapter on all experts, in the form that the converter reads: a module for each expert and projection. Returns it as
    PEFT writes it, A [experts * rank, in] expert by expert, B [out, rank * experts] rank by rank."""
    folder.mkdir()
    rank, factors, of_modules = 2, {}, {}
    layers = sorted({key.split(f".{experts['files']}.")[0] for key in weights if f".{experts['files']}." in key})
    for layer in layers:
        files = f"{layer}.{experts['files']}"
        count = len([key for key in weights if key.startswith(f"{files}.") and f".{experts['down_proj'][0]}." in key])
        for tensor in ("gate_up_proj", "down_proj"):
            modules = experts[tensor]
            rows, columns = weights[f"{files}.0.{modules[0]}.weight"]
            path = f"base_model.model.{layer}.mlp.experts" + (".base_layer" if tensor == "gate_up_proj" else "")
            names = [f"{path}.lora_{which}.weight" for which in "AB"]
            a, b = (values_of(n, s) for n, s in zip(names, ([count * rank, columns], [len(modules) * rows, rank * count])))
            factors.update({names[0]: list(a.shape), names[1]: list(b.shape)})
            a, b = a.reshape(count, rank, columns), b.reshape(len(modules), rows, rank, count)
            for expert in range(count):
                for i, module in enumerate(modules):
                    of_module = f"base_model.model.{files}.{expert}.{module}"
                    of_modules[f"{of_module}.lora_A.weight"] = torch.from_numpy(a[expert].copy())
                    of_modules[f"{of_module}.lora_B.weight"] = torch.from_numpy(b[i, :, :, expert].copy())
    save_file(of_modules, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    settings = dict(peft_type="LORA", task_type="CAUSAL_LM", r=rank, lora_alpha=6, lora_dropout=0.0, bias="none")
    settings.update(base_model_name_or_path=name, fan_in_fan_out=False, inference_mode=True)
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    settings.update(target_modules=[], target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])
    return settings, factors


def convert_adapter(adapter, base, file):
    arguments, sys.argv = sys.argv, ["", str(adapter), "--base", str(base), "--outfile", str(file), "--outtype", "f32"]
    runpy.run_path(str(llama_cpp / "convert_lora_to_gguf.py"), run_name="__main__")
    sys.argv = arguments
    return described(file, "f32")


load_hparams = ModelBase.load_hparams
named = sys.argv[3:]
families = json.loads(out.read_text()) if named else {}
for name, kind, config in models():
    if named and name not in named:
        continue
    print(name, flush=True)
    ModelBase.load_hparams = staticmethod(raw_config if name in RAW else load_hparams)
    with tempfile.TemporaryDirectory() as temporary, torch.inference_mode():
        folder, file = pathlib.Path(temporary) / name, pathlib.Path(temporary) / "x.gguf"
        config.dtype = torch.float32
        kind(config).save_pretrained(folder)
        saved = json.loads((folder / "config.json").read_text())
        saved.update(PUBLISHED.get(name, {}))
        saved = {key: value for key, value in saved.items() if value is not None or key not in PUBLISHED.get(name, {})}
        (folder / "config.json").write_text(json.dumps(saved))
        # The converter cuts Gemma 3's embedding to so many tokens.
        tokens = dict(model=dict(vocab={str(i): i for i in range(SIZES["vocab_size"])}), added_tokens=[])
        (folder / "tokenizer.json").write_text(json.dumps(tokens))
        (path,) = folder.glob("*.safetensors")
        with safe_open(path, "pt") as stored:
            shapes = {key: list(stored.get_slice(key).get_shape()) for key in stored.keys()}
        if name in STACKED:
            shapes = stacked(shapes)
        save_file({key: torch.from_numpy(values_of(key, shape)) for key, shape in shapes.items()}, path, metadata={"format": "pt"})
        weights = {key: shape for key, shape in shapes.items() if is_of_text(key)}
        family = dict(config=saved, weights=weights)
        for type_name in TYPES:
            converted = convert(folder, file, type_name)
            family.setdefault("metadata", converted["metadata"])
            for key, tensor in converted["tensors"].items():
                family.setdefault("tensors", {}).setdefault(key, {}).update(tensor)
            if type_name == "f32":
                add_mixture_types(file, family["tensors"])
            file.unlink()
        if name in ADAPTERS or name in EXPERT_ADAPTERS:
            adapter = pathlib.Path(temporary) / "adapter"
            if name in ADAPTERS:
                settings, factors = write_adapter(adapter, name, ADAPTERS[name], weights)
            else:
                settings, factors = write_expert_adapter(adapter, name, EXPERT_ADAPTERS[name], weights)
            family["adapter"] = dict(config=settings, weights=factors, **convert_adapter(adapter, folder, file))
        families[name] = family


def compact(value, depth=0):
    """JSON with a line for each tensor and each number."""
    if isinstance(value, dict) and depth < 3 and value:
        inner = ",\n".join(f"{' ' * depth}{json.dumps(key)}: {compact(one, depth + 1)}" for key, one in value.items())
        return "{\n" + inner + "}"
    return json.dumps(value)


out.write_text(compact(families) + "\n")
