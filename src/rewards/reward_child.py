"""Calls Python reward functions: lines of JSON in, lines of JSON out (docs/rewards.md)."""
import asyncio, functools, importlib, inspect, json, math, os, sys, traceback, types  # noqa: E401
SCRIPT = "reward_child.py"

def judge(text, solution):  # the reward and what was read of both, as trl.rewards.accuracy_reward has them
    from latex2sympy2_extended import NormalizationConfig
    from math_verify import LatexExtractionConfig, parse, verify
    if text is None:
        return 0.0, "[incomplete reasoning]", "[incomplete reasoning]"
    gold = parse(solution, parsing_timeout=10)
    if not gold:
        return None, "[unparseable]", "[skipped]"
    latex = LatexExtractionConfig(normalization_config=NormalizationConfig(units=True), boxed_match_priority=0,
                                  try_extract_without_anchor=False)
    answer = parse(text, [latex], extraction_mode="first_match", parsing_timeout=10)
    return float(verify(gold, answer, timeout_seconds=5)), str(gold), str(answer) if answer else "[unparseable]"

def judge_all(completions, solution, log_extra, text_of=lambda text: text):
    texts = [text_of(one if isinstance(one, str) else one[0]["content"]) for one in completions]
    rights, *logged = zip(*map(judge, texts, solution))
    for column, values in zip(("solution", "gold_parsed", "answer_parsed"), (solution, *logged)):
        log_extra(column, values)
    return rights

def accuracy_reward(reasoning_delimiters=()):
    def answer_in(text):
        found = [one for one in reasoning_delimiters if one in text]
        return text.split(found[0])[-1] if found else None if reasoning_delimiters else text
    return lambda completions, solution, log_extra: judge_all(completions, solution, log_extra, answer_in)

reasoning_accuracy_reward = functools.partial(accuracy_reward, reasoning_delimiters=("</think>",))

def get_cosine_scaled_reward(max_len, min_value_wrong=-1.0, max_value_wrong=-0.5, min_value_correct=0.5,
                             max_value_correct=1.0):
    def scaled(right, ids):
        low, high = (min_value_correct, max_value_correct) if right else (max_value_wrong, min_value_wrong)
        share = (1.0 + math.cos(min(len(ids) / max_len, 1.0) * math.pi)) / 2
        return None if right is None else low + share * (high - low)
    return lambda completions, solution, completion_ids: [
        scaled(*one) for one in zip(judge_all(completions, solution, lambda *_: None), completion_ids)]

def find(wanted):
    if not isinstance(wanted, str):  # one of the above
        import math_verify  # noqa: F401: here rather than at the first call
        return globals()[wanted["make"]](**wanted["arguments"])
    module, _, name = wanted.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    if not callable(found):
        raise TypeError("%s is no function" % wanted)
    return found

def clean(value):
    """Returns a value as JSON has it: null for NaN, a text for what is no number or list."""
    if value is None or isinstance(value, (int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else repr(value)
    if isinstance(value, dict):
        return {str(key): clean(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(one) for one in value]
    return clean(value.tolist()) if hasattr(value, "tolist") else str(value)  # NumPy's and torch's

def number(reward):
    try:
        return clean(repr(reward) if isinstance(reward, (str, bytes)) else None if reward is None else float(reward))
    except (TypeError, ValueError):
        return repr(reward)

class Call:
    def __init__(self, function, request):
        self.function, self.request, self.extra, self.metrics = function, request, {}, {}
        self.given = dict(request["columns"], trainer_state=types.SimpleNamespace(**request["trainer_state"]),
                          log_extra=lambda column, values: self.extra.setdefault(column, []).extend(values),
                          log_metric=lambda name, value: self.metrics.setdefault(name, []).append(float(value)),
                          **{name: request[name] for name in ("prompts", "completions", "completion_ids")})
    def speak(self):  # what comes on standard error from here on is this function's
        print("\n\x1e" + self.request["function"], file=sys.stderr, flush=True)
    def run(self):
        self.speak()
        parameters = inspect.signature(self.function).parameters
        takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
        return self.function(**{name: self.given[name] for name in self.given if takes_all or name in parameters})
    async def awaited(self, result):
        self.speak()
        return await result
    def answer(self, result):
        try:
            if isinstance(result, BaseException):
                raise result
            return {"id": self.request["id"], "rewards": [number(one) for one in result], "extra": clean(self.extra),
                    "metrics": {name: clean(sum(all) / len(all)) for name, all in self.metrics.items()}}
        except Exception as error:
            return dict(failure(error, self.function), id=self.request["id"])

def failure(error, function=None):
    """Returns what went wrong and where: the last line of the function's own file on the way there."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    frames = [at for at in traceback.extract_tb(error.__traceback__) if at.filename not in (SCRIPT, importlib.__file__)]
    places = [(one.filename, one.lineno) for one in frames]
    if code and code.co_filename != SCRIPT:  # the function itself comes first, for where nothing of it ran
        places = [one for one in [(code.co_filename, code.co_firstlineno)] + places if one[0] == code.co_filename]
    message = traceback.format_exception_only(type(error), error)
    return {"error": message[-1].strip(), "traceback": "".join(traceback.format_list(frames) + message) if frames else "",
            "place": "%s:%d" % (os.path.basename(places[-1][0]), places[-1][1]) if places else None}

def answers_to(batch, functions, loop):  # coroutines are awaited together, behind what answers at once
    waiting = []
    for request in batch:
        call = Call(functions[request["function"]], request)
        try:
            result = call.run()
        except Exception as error:
            result = error
        if inspect.isawaitable(result):
            waiting.append((call, result))
        else:
            yield call.answer(result)
    async def await_all():
        return await asyncio.gather(*(call.awaited(result) for call, result in waiting), return_exceptions=True)
    for (call, _), result in zip(waiting, loop.run_until_complete(await_all())):
        yield call.answer(result)

class Settings(dict):
    """Keys of a config as axolotl hands them out: also as attributes, and None where there is none."""
    def __missing__(self, key):
        return None
    def __getattr__(self, key):
        if key.startswith("__"):
            raise AttributeError(key)
        return self[key]

def settings(value):
    if isinstance(value, dict):
        return Settings((key, settings(one)) for key, one in value.items())
    return [settings(one) for one in value] if isinstance(value, list) else value

def rows_of(request, function):  # as the datasets library maps a function over rows
    try:
        made = function(settings(request["cfg"]))
        change, options = made if isinstance(made, tuple) else (made, None)
        removed = (options or {}).get("remove_columns") or []
        rows = [{**{key: row[key] for key in row if key not in removed}, **(change(dict(row)) or {})}
                for row in request["rows"]]
        return {"id": request["id"], "rows": clean(rows)}
    except Exception as error:
        return dict(failure(error, function), id=request["id"])

def hello(request, functions):
    for one in request["functions"]:
        name = one if isinstance(one, str) else one["function"]
        try:
            functions[name] = find(one)
        except Exception as error:
            return [dict(failure(error), function=name)]
    return [{"ok": True}]

def own_streams():  # what functions print is no answer, and what they read is no request
    answers = open(os.dup(1), "w", encoding="utf-8", errors="replace")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout = sys.stderr
    sys.path.insert(0, os.getcwd())
    return answers

def main(requests, answers, functions, batch, loop):
    for line in requests:
        request = json.loads(line)
        batch += [request] if request["op"] == "rewards" else []
        if request.get("more"):
            continue
        if request["op"] == "rows":
            answers_now = [rows_of(request, functions[request["function"]])]
        else:
            answers_now = answers_to(batch, functions, loop) if batch else hello(request, functions)
        for answer in answers_now:
            sys.stderr.flush()
            print(json.dumps(answer, ensure_ascii=False), file=answers, flush=True)
        batch = []

if __name__ == "__main__":  # else it is a module of whoever runs the functions in a process of theirs
    main(requests, own_streams(), {}, [], asyncio.new_event_loop())  # noqa: F821: where this script was read from
