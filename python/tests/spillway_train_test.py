"""Tests of the package spillway_train with the real program, on a tiny model.

usage: SPILLWAY=build/release/bin/spillway PYTHONPATH=python python3 python/tests/spillway_train_test.py [-k PART]
"""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from pathlib import Path
from unittest import mock

import spillway_train as st
from spillway_train import _bar, _generate, _program

ROOT = Path(__file__).resolve().parent.parent.parent
TEMPLATE = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}assistant:"


class JobTest(unittest.TestCase):
    """Has a folder with a model, and configs for it."""

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="spillway-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.model = cls.folder / "model"
        make = [sys.executable, ROOT / "tools" / "make_random_model.py", "tiny", cls.model]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
        settings = cls.model / "tokenizer_config.json"
        settings.write_text(json.dumps({**json.loads(settings.read_text()), "chat_template": TEMPLATE}))

    def setUp(self):
        self.output = Path(tempfile.mkdtemp(dir=self.folder)) / "out"

    def job(self, **keys):
        return {
            "base_model": self.model,
            "datasets": [{"path": ROOT / "examples/data/instructions.jsonl", "type": "alpaca"}],
            "sequence_len": 512,
            "max_steps": 3,
            "learning_rate": 1e-3,
            "adapter": "lora",
            "lora_r": 2,
            "lora_target_linear": True,
            "output_dir": self.output,
            **keys,
        }

    def online_job(self, function):
        prompts = self.folder / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"prompt": f"Say {i}", "wanted": i}) + "\n" for i in range(4)))
        trl = {"num_generations": 2, "max_completion_length": 4, "reward_funcs": [function]}
        return self.job(rl="grpo", datasets=[{"path": prompts}], trl=trl, micro_batch_size=4, max_steps=1, bf16=False)


class PlanTest(JobTest):
    def test_a_plan_has_attributes_and_a_table(self):
        plan = st.plan(self.job(), memory={"device": "64MiB"})
        self.assertTrue(plan.fits)
        self.assertEqual(plan.device.budget_bytes, 64 << 20)
        self.assertLess(0, plan.device.peak_bytes)
        self.assertLess(0, sum(plan.device.by_kind.values()))
        self.assertEqual(plan.json["step_seconds"], plan.step_seconds)
        self.assertEqual(len(plan.choices), 4)
        self.assertIn("<td", plan._repr_html_())
        self.assertRegex(str(plan), r"^fits: device [\d.]+ MiB of 64\.0 MiB; .* tokens/s$")

    def test_a_job_that_does_not_fit_is_a_plan_too(self):
        plan = st.plan(self.job(), memory={"device": "10KiB"})
        self.assertFalse(plan.fits)
        self.assertLess(0, plan.missing["device"])
        self.assertTrue(plan.nearest)
        self.assertIn("does not fit", plan._repr_html_())

    def test_a_config_is_a_path_a_text_or_a_dict(self):
        text = json.dumps(self.job(), default=str)
        path = self.folder / "job.yml"
        path.write_text(text)
        plans = [st.plan(config, memory={"plan": "fixed"}) for config in (path, str(path), f"# a text\n{text}", self.job())]
        self.assertEqual({plan.device.peak_bytes for plan in plans}, {plans[0].device.peak_bytes})

    def test_values_of_keys_are_read_as_they_are(self):
        given = {"tokens": "[EXTRA]", "output_dir": "null", "optim_args": {}, "lora_rank_pattern": {"layers.0.q_proj": 2}}
        self.assertEqual(
            _program.options({**given, "memory": {"device": "1GiB"}, "seed": 3}),
            [
                '--tokens="[EXTRA]"',
                '--output_dir="null"',
                "--optim_args={}",
                '--lora_rank_pattern={"layers.0.q_proj": 2}',
                "--memory.device=1GiB",
                "--seed=3",
            ],
        )

    def test_what_is_wrong_is_an_exception_with_the_message(self):
        with self.assertRaises(st.InputError) as raised:
            st.plan(self.job(lerning_rate=1))
        self.assertIn("[config.yml", str(raised.exception))
        self.assertIn("did you mean learning_rate?", str(raised.exception))
        self.assertEqual(raised.exception.status, 2)
        with self.assertRaisesRegex(st.InputError, "expected values that JSON has"):
            st.plan(self.job(learning_rate=object()))

    def test_what_fits_is_a_table_of_rows(self):
        fit = st.fit("smollm2-135m", gpu="laptop-cpu-16gb", method="lora")
        self.assertEqual({row["method"] for row in fit.rows}, {"lora"})
        self.assertIn("tokens/s", fit._repr_html_())


class TrainTest(JobTest):
    def test_a_run_hands_out_the_lines_of_its_metrics(self):
        run = st.train(self.job(val_set_size=0.2, eval_steps=2))
        lines = list(run.metrics())
        self.assertEqual([line["step"] for line in lines if "loss" in line], [1, 2, 3])
        self.assertTrue(any("eval_loss" in line for line in lines))
        written = (self.output / "metrics.jsonl").read_text().splitlines()
        self.assertEqual(lines, [json.loads(line) for line in written])
        self.assertEqual((run.wait(), run.status, run.total_steps, run.output_dir), (0, 0, 3, self.output))
        self.assertEqual(run.report["steps"], 3)
        self.assertEqual(list(run.metrics()), lines)  # a second time
        self.assertEqual(repr(run), "<Run: done, step 3/3>")
        self.assertTrue((self.output / "adapter_model.safetensors").exists())
        self.assertIn("the adapter is in", run.log)

    def test_metrics_are_there_where_none_are_written(self):
        run = st.train(self.job(), metrics=False, max_steps=1)
        self.assertEqual(len(list(run.metrics())), 1)
        self.assertFalse((self.output / "metrics.jsonl").exists())

    def test_a_run_that_is_interrupted_goes_on_where_it_stopped(self):
        run = st.train(self.job(max_steps=2000))
        next(run.metrics())
        run.interrupt()
        self.assertEqual((run.wait(), run.status), (130, 130))
        step = list(run.metrics())[-1]["step"]
        self.assertTrue((self.output / f"checkpoint-{step}").exists())
        again = st.train(self.job(max_steps=2000), auto_resume_from_checkpoints=True)
        self.assertEqual(next(again.metrics())["step"], step + 1)
        again.interrupt()
        again.wait()

    def test_ctrl_c_stops_the_run_behind_a_step(self):
        (self.folder / "job.json").write_text(json.dumps(self.job(max_steps=2000), default=str))
        script = "import sys, time, spillway_train as st; run = st.train(sys.argv[1]); print(next(run.metrics()), flush=True); "
        for then in ("run.wait()", "time.sleep(1000)"):
            with subprocess.Popen(
                [sys.executable, "-c", script + then, self.folder / "job.json"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            ) as process:
                process.stdout.readline()
                process.send_signal(signal.SIGINT)
                said = process.communicate()[1]
            self.assertIn("KeyboardInterrupt", said)
            (checkpoint,) = self.output.glob("checkpoint-*")
            shutil.rmtree(checkpoint)

    def test_a_run_that_nobody_waits_for_ends_before_python_does(self):
        (self.folder / "left.json").write_text(json.dumps(self.job(), default=str))
        script = "import sys, spillway_train as st; run = st.train(sys.argv[1])"
        subprocess.run([sys.executable, "-c", script, self.folder / "left.json"], check=True)
        self.assertTrue((self.output / "adapter_model.safetensors").exists())

    def test_errors_come_from_all_that_waits(self):
        run = st.train(self.job(datasets=[{"path": "no-such-file.jsonl", "type": "alpaca"}]))
        for use in (run.wait, lambda: list(run.metrics()), lambda: run.output_dir, lambda: run.report):
            with self.assertRaisesRegex(st.InputError, r"^\[no-such-file.jsonl\] expected"):
                use()
        self.assertEqual(run.status, 2)
        self.assertFalse(self.output.exists())

    def test_a_program_that_is_killed_is_an_error_of_the_machine(self):
        run = st.train(self.job(max_steps=2000))
        next(run.metrics())
        os.kill(run.pid, signal.SIGKILL)
        with self.assertRaisesRegex(st.MachineError, "signal 9"):
            run.wait()
        self.assertEqual(run.status, 137)

    def test_several_ranks_end_as_one_process_does(self):
        if not shutil.which("mpirun") or not (Path(st.program()).parent / "libspillway_mpi.so").exists():
            self.skipTest("no MPI")
        run = st.train(self.job(max_steps=2000, micro_batch_size=1), ranks=2)
        next(run.metrics())
        run.interrupt()
        self.assertEqual(run.wait(), 130)
        self.assertTrue(list(self.output.glob("checkpoint-*")))
        with self.assertRaises(st.InputError):
            st.train(self.job(datasets=[{"path": "no-such-file.jsonl", "type": "alpaca"}]), ranks=2).wait()


class RewardTest(JobTest):
    def test_a_callable_is_called_in_this_process(self):
        seen = []

        def short(completions, wanted, **_):
            seen.extend(wanted)
            return [1.0 / (1 + len(text)) for text in completions]

        run = st.train(self.online_job(short))
        (line,) = run.metrics()
        self.assertIn("rewards/short/mean", line)
        self.assertEqual(len(seen), 4)
        self.assertTrue(set(seen) <= {0, 1, 2, 3})

    def test_coroutines_and_objects_are_functions_too(self):
        class Length:
            async def __call__(self, completions, **_):
                return [float(len(text)) for text in completions]

        (line,) = st.train(self.online_job(Length())).metrics()
        self.assertIn("rewards/Length/mean", line)

    def test_what_a_callable_raises_is_the_cause_of_the_error(self):
        def broken(completions, **_):
            raise LookupError("no number")

        class Broken:
            async def __call__(self, completions, **_):
                raise LookupError("no number")

        with self.assertRaises(st.InputError) as raised:
            st.train(self.online_job(Broken())).wait()
        self.assertIsInstance(raised.exception.__cause__, LookupError)
        with self.assertRaisesRegex(st.InputError, r"broken raised LookupError: no number \(spillway_train_test\.py:\d+\)") as raised:
            st.train(self.online_job(broken)).wait()
        self.assertIsInstance(raised.exception.__cause__, LookupError)


class AnswerTest(JobTest):
    def test_answers_may_have_any_line_end_of_unicode(self):
        answer = {"text": "a\u2028b\u0085c", "ids": [1], "prompt_ids": [2], "finish_reason": "stop"}
        printed = json.dumps(answer, ensure_ascii=False) + "\n"
        with mock.patch.object(_generate, "call", return_value=mock.Mock(stdout=printed)):
            self.assertEqual(str(st.generate(self.model, "Say")), answer["text"])

    def test_prompts_and_conversations_are_answered(self):
        one = st.generate(self.model, "Say", max_new_tokens=3, logprobs=True)
        self.assertEqual((len(one.ids), one.finish_reason, str(one)), (3, "length", one.text))
        many = st.generate(self.model, ["Say", [{"role": "user", "content": "Say"}]], max_new_tokens=3)
        self.assertEqual(many[0].ids, one.ids)
        self.assertLess(len(one.prompt_ids), len(many[1].prompt_ids))
        self.assertEqual(st.generate(self.model, []), [])
        with self.assertRaises(st.InputError):
            st.generate(self.folder / "none", "Say")

    def test_one_dict_is_one_prompt_and_numbers_may_be_of_another_library(self):
        class Number:  # as NumPy's
            def tolist(self):
                return 2

        one = st.generate(self.model, {"prompt": "Say", "max_new_tokens": Number()}, temperature=Number())
        self.assertEqual(len(one.ids), 2)
        self.assertEqual(len(st.generate(self.model, "Say", max_new_tokens=Number()).ids), 2)
        schema = {"type": "string", "maxLength": 3}
        text = str(st.generate(self.model, "Say", max_new_tokens=40, json_schema=schema))
        self.assertLessEqual(len(json.loads(text)), 3)

    def test_what_cannot_be_asked_for_is_named(self):
        for prompt, options in [(3, {}), ("\ud800", {}), ("Say", {"json": True}), ("Say", {"max_new_tokens": object()})]:
            with self.subTest(options), self.assertRaisesRegex(st.InputError, r"^\[(generate|json|prompt)\] expected .* got"):
                st.generate(self.model, prompt, **options)

    def test_a_server_answers_as_long_as_its_block_lasts(self):
        with st.Server(self.model, context=64) as server:
            self.assertRegex(server.base_url, r"^http://127\.0\.0\.1:\d+/v1$")
            with urllib.request.urlopen(f"{server.base_url}/models") as answer:
                self.assertEqual(json.load(answer)["data"][0]["id"], "model")
            url = server.base_url
        self.assertEqual(server.base_url, "")
        with self.assertRaises(OSError):
            urllib.request.urlopen(f"{url}/models")
        with self.assertRaisesRegex(st.InputError, "where nothing is"), st.Server(self.folder / "none"):
            pass


class NotebookTest(JobTest):
    def test_the_notebook_runs(self):
        place = self.output.parent
        notebook = ROOT / "examples" / "python.ipynb"
        run = subprocess.run(
            [sys.executable, ROOT / "tools" / "run_notebook.py", notebook],
            cwd=place,
            env={**os.environ, "MODEL": str(self.model), "MAX_STEPS": "2"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertIn("<table>", run.stdout)
        self.assertTrue((place / "orders" / "adapter_model.safetensors").exists())


class SurroundingsTest(unittest.TestCase):
    def test_a_program_that_is_not_there_is_named(self):
        with mock.patch.dict(os.environ, {"SPILLWAY": "/nowhere/spillway"}):
            with self.assertRaisesRegex(st.InputError, r"^\[SPILLWAY\] expected a program, got nothing .*/nowhere/spillway"):
                st.program()
        with mock.patch.dict(os.environ), mock.patch.object(_program, "places", return_value=["/nowhere/bin/spillway"]):
            del os.environ["SPILLWAY"]
            with self.assertRaisesRegex(st.InputError, "expected the program at /nowhere/bin/spillway.*force-reinstall"):
                st.plan({})

    def test_the_wheels_with_and_without_cuda_in_one_place_are_a_warning(self):
        with tempfile.TemporaryDirectory() as place:
            shutil.copytree(os.path.dirname(st.__file__), os.path.join(place, "spillway_train"))

            def said():
                command = [sys.executable, "-c", "import spillway_train"]
                done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=True, env={**os.environ, "PYTHONPATH": place})
                return done.stderr

            os.mkdir(os.path.join(place, "spillway_train_cu13-0.1.0.dist-info"))
            os.mkdir(os.path.join(place, "spillway_trainer-1.0.dist-info"))
            self.assertEqual(said(), "")
            os.mkdir(os.path.join(place, "spillway_train-0.1.0.dist-info"))
            self.assertIn("expected one of spillway-train and spillway-train-cu13, got both", said())
            self.assertIn("run pip uninstall spillway-train spillway-train-cu13, and install one of them", said())

    def test_a_python_that_is_too_old_is_refused(self):
        script = "import sys; sys.version_info = (3, 8, 20, 'final', 0)\nimport spillway_train"
        done = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, check=False)
        self.assertIn("expected Python 3.9 or newer, got 3.8", done.stderr)

    def test_the_version_is_that_of_the_program(self):
        said = subprocess.run([st.program(), "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertEqual(said.split()[-1], st.__version__)

    def test_a_bar_shows_the_steps(self):
        line = {"step": 2, "loss": 1.5, "tokens_per_second": 1234.5}
        with mock.patch("sys.stderr", io.StringIO()) as terminal, mock.patch.dict(os.environ, {"COLUMNS": "100"}):
            bar = _bar.Bar(True)
            bar.begin(0, 4)
            bar.update(line)
            bar.end()
        self.assertIn(" 50% [############            ] step 2/4 · loss 1.5000 · 1234 tokens/s · 0:00 left", terminal.getvalue())
        with mock.patch("sys.stderr", io.StringIO()) as narrow, mock.patch.dict(os.environ, {"COLUMNS": "40"}):
            bar = _bar.Bar(True)
            bar.begin(0, 4)
            bar.update(line)
        self.assertEqual(len(narrow.getvalue()), len("\r\x1b[K") + 39)
        shown = mock.Mock()
        with mock.patch.object(_bar, "notebook_display", return_value=shown):
            bar = _bar.Bar(None)
            bar.begin(0, 4)
            bar.update(line)
            bar.update({**line, "step": 4})
        self.assertIn('value="0.5000"', shown.call_args.args[0]["text/html"])
        self.assertIn('value="1.0000"', shown.return_value.update.call_args.args[0]["text/html"])


if __name__ == "__main__":
    unittest.main()
