#!/usr/bin/env python3
"""Makes the data of examples/dpo.yml: questions, each with a terse answer (chosen) and a long-winded one (rejected).

    What is the capital of Peru?
    chosen:   Lima
    rejected: Thank you for asking! When people talk about Peru, they often wonder about this. The capital of Peru is Lima. ...

Both are right, so what training teaches is the form: an untrained model answers in sentences, and how long its answers are
can be counted. No held-out question asks for what a training row asks, or in the same words.

usage: tools/make_dpo_example_data.py FOLDER [--rows N] [--seed N]
writes FOLDER/terse.jsonl           {"prompt": [user], "chosen": [assistant], "rejected": [assistant]}, one per line
       FOLDER/terse_held_out.jsonl  the same
"""

import argparse
import json
import os
import random

HELD_OUT_ROWS = 60

# Kind -> (what the answer says in a sentence, questions to train on, held-out questions, facts). The last fifth of the facts is
# held out.
CAPITALS = {
    "Austria": "Vienna", "Belgium": "Brussels", "Bolivia": "Sucre", "Bulgaria": "Sofia", "Canada": "Ottawa", "Chile": "Santiago",
    "China": "Beijing", "Colombia": "Bogotá", "Cuba": "Havana", "Denmark": "Copenhagen", "Egypt": "Cairo", "Ethiopia": "Addis Ababa",
    "Finland": "Helsinki", "France": "Paris", "Germany": "Berlin", "Greece": "Athens", "Hungary": "Budapest", "Iceland": "Reykjavik",
    "India": "New Delhi", "Indonesia": "Jakarta", "Iran": "Tehran", "Iraq": "Baghdad", "Ireland": "Dublin", "Italy": "Rome",
    "Japan": "Tokyo", "Kenya": "Nairobi", "Lebanon": "Beirut", "Mexico": "Mexico City", "Mongolia": "Ulaanbaatar", "Morocco": "Rabat",
    "Nepal": "Kathmandu", "Norway": "Oslo", "Peru": "Lima", "Poland": "Warsaw", "Portugal": "Lisbon", "Romania": "Bucharest",
    "Russia": "Moscow", "Senegal": "Dakar", "Serbia": "Belgrade", "Spain": "Madrid", "Sweden": "Stockholm", "Switzerland": "Bern",
    "Thailand": "Bangkok", "Tunisia": "Tunis", "Turkey": "Ankara", "Ukraine": "Kyiv", "Uruguay": "Montevideo", "Vietnam": "Hanoi",
}
OPPOSITES = {
    "hot": "cold", "big": "small", "tall": "short", "fast": "slow", "early": "late", "open": "closed", "full": "empty", "hard": "soft",
    "light": "dark", "rich": "poor", "loud": "quiet", "wet": "dry", "old": "young", "happy": "sad", "clean": "dirty", "strong": "weak",
    "wide": "narrow", "deep": "shallow", "sharp": "blunt", "near": "far", "high": "low", "first": "last", "thick": "thin", "up": "down",
    "inside": "outside", "left": "right", "true": "false", "always": "never", "buy": "sell", "win": "lose",
}
COLOURS = {
    "grass": "green", "snow": "white", "coal": "black", "a ripe banana": "yellow", "a clear sky": "blue", "a ripe tomato": "red",
    "a carrot": "orange", "chocolate": "brown", "milk": "white", "an emerald": "green", "a lemon": "yellow", "blood": "red", "a crow": "black",
    "a ruby": "red", "an elephant": "grey", "a sapphire": "blue", "a flamingo": "pink", "an aubergine": "purple", "a polar bear": "white",
    "spinach": "green",
}
YOUNG = {
    "dog": "puppy", "cat": "kitten", "cow": "calf", "horse": "foal", "sheep": "lamb", "goat": "kid", "pig": "piglet", "hen": "chick",
    "duck": "duckling", "goose": "gosling", "swan": "cygnet", "deer": "fawn", "bear": "cub", "frog": "tadpole", "owl": "owlet",
    "kangaroo": "joey", "hare": "leveret", "eagle": "eaglet", "seal": "pup", "lion": "cub",
}
ELEMENTS = {
    "hydrogen": "H", "helium": "He", "carbon": "C", "nitrogen": "N", "oxygen": "O", "sodium": "Na", "magnesium": "Mg", "aluminium": "Al",
    "silicon": "Si", "sulfur": "S", "chlorine": "Cl", "potassium": "K", "calcium": "Ca", "iron": "Fe", "copper": "Cu", "zinc": "Zn",
    "silver": "Ag", "tin": "Sn", "iodine": "I", "gold": "Au", "mercury": "Hg", "lead": "Pb", "neon": "Ne", "nickel": "Ni",
}
SPANISH = {
    "house": "casa", "water": "agua", "bread": "pan", "book": "libro", "dog": "perro", "cat": "gato", "table": "mesa", "window": "ventana",
    "door": "puerta", "sun": "sol", "moon": "luna", "tree": "árbol", "flower": "flor", "city": "ciudad", "street": "calle", "milk": "leche",
    "apple": "manzana", "cheese": "queso", "fish": "pez", "friend": "amigo", "school": "escuela", "night": "noche", "day": "día", "red": "rojo",
    "green": "verde", "hand": "mano", "head": "cabeza", "chair": "silla", "key": "llave", "bridge": "puente",
}
NEXT = {
    "Monday": "Tuesday", "Tuesday": "Wednesday", "Wednesday": "Thursday", "Thursday": "Friday", "Friday": "Saturday", "Saturday": "Sunday",
    "Sunday": "Monday", "January": "February", "February": "March", "March": "April", "April": "May", "May": "June", "June": "July",
    "July": "August", "August": "September", "September": "October", "October": "November", "November": "December", "December": "January",
}
SUMS = {f"{a} + {b}": str(a + b) for a, b in [
    (3, 4), (12, 5), (7, 8), (20, 22), (9, 6), (15, 15), (31, 8), (40, 17), (6, 6), (18, 3), (25, 50), (11, 12), (5, 14), (33, 33), (8, 19),
    (2, 9), (14, 26), (70, 7), (21, 13), (16, 4), (27, 3), (10, 45), (13, 13), (60, 25), (4, 17), (22, 9), (35, 15), (19, 1), (44, 11), (17, 30)]}

KINDS = {
    "capital": ("the capital of {x} is {y}", ["What is the capital of {x}?", "Which city is the capital of {x}?", "Name the capital of {x}.",
                                             "Can you tell me the capital of {x}?"], ["Please tell me what {x}'s capital is.", "Where does {x} have its capital?"], CAPITALS),
    "opposite": ('the opposite of "{x}" is "{y}"', ['What is the opposite of "{x}"?', 'Which word means the opposite of "{x}"?',
                                                   'Give me the opposite of "{x}".'], ['Do you know a word that is the opposite of "{x}"?', 'If it is not "{x}", what is it instead?'], OPPOSITES),
    "colour": ("the colour of {x} is usually {y}", ["What colour is {x}?", "Which colour does {x} have?", "Tell me the colour of {x}."],
               ["Which colour do people think of at the sight of {x}?", "If you painted {x}, which colour would you take?"], COLOURS),
    "young": ("the young of the {x} is called a {y}", ["What is a young {x} called?", "What do you call a baby {x}?", "Name the young of a {x}."],
              ["Which word is there for the young of a {x}?", "A {x} has little ones. What are they called?"], YOUNG),
    "element": ("the chemical symbol of {x} is {y}", ["What is the chemical symbol of {x}?", "Which symbol stands for {x}?", "Give the symbol of {x}."],
                ["How is {x} written in the periodic table?", "How do chemists abbreviate {x}?"], ELEMENTS),
    "spanish": ('the Spanish word for "{x}" is "{y}"', ['What is "{x}" in Spanish?', 'Translate "{x}" into Spanish.', 'How do you say "{x}" in Spanish?'],
                ['Which Spanish word means "{x}"?', 'What would someone in Madrid say for "{x}"?'], SPANISH),
    "next": ("what follows {x} is {y}", ["What comes after {x}?", "Which one follows {x}?", "{x} is over. What comes next?"],
             ["Tell me what comes right after {x}.", "When {x} ends, what begins?"], NEXT),
    "sum": ("{x} makes {y}", ["What is {x}?", "How much is {x}?", "Calculate {x}.", "Work out {x} for me."], ["Please add up {x}.", "I have {x}. How many are there?"], SUMS),
}

OPENINGS = [
    "Thank you for asking!", "That is a great question!", "I'd be happy to help you with that.", "Of course, let me explain.",
    "Sure! There is a lot to say here.", "What an interesting thing to ask!", "Let us think about this step by step.", "Good question, and a common one.",
    "I am glad that you asked me this.", "Certainly, I can help with this."]
MIDDLES = [
    "After thinking about it carefully, I can say that {fact}.", "As many people know, {fact}.", "To put it in a few words, {fact}.",
    "If I remember correctly, {fact}.", "In general one can say that {fact}.", "According to what I have learned, {fact}."]
CLOSINGS = [
    "If you have any other questions, please do not hesitate to ask me.", "I hope that this explanation was helpful to you.",
    "There is of course much more to say about this topic.", "Let me know if you would like me to go into more detail.",
    "Feel free to ask me for more information at any time.", "It is always good to learn something new, isn't it?"]


def make_row(rng, kind, questions, fact):
    sentence, *_ = KINDS[kind]
    x, y = fact
    prompt = rng.choice(questions).format(x=x, y=y)
    rejected = " ".join([rng.choice(OPENINGS), rng.choice(MIDDLES).format(fact=sentence.format(x=x, y=y)), rng.choice(CLOSINGS)])
    return prompt, y, rejected


def make_rows(rng, rows, held_out):
    """Returns `rows` rows, no question twice, as many of each kind as there are facts for."""
    made = {}
    while len(made) < rows:
        kind = rng.choice(list(KINDS))
        _, questions, others, facts = KINDS[kind]
        facts = list(facts.items())
        kept = len(facts) * 4 // 5
        prompt, chosen, rejected = make_row(rng, kind, others if held_out else questions, rng.choice(facts[kept:] if held_out else facts[:kept]))
        made.setdefault(prompt, (chosen, rejected))
    return [(prompt, *answers) for prompt, answers in made.items()]


def turn(role, content):
    return [{"role": role, "content": content}]


def write_lines(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        for prompt, chosen, rejected in rows:
            row = {"prompt": turn("user", prompt), "chosen": turn("assistant", chosen), "rejected": turn("assistant", rejected)}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--rows", type=int, default=400, help="training rows (400)")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()

    rng = random.Random(args.seed)
    train, held_out = make_rows(rng, args.rows, held_out=False), make_rows(rng, HELD_OUT_ROWS, held_out=True)
    os.makedirs(args.folder, exist_ok=True)
    write_lines(os.path.join(args.folder, "terse.jsonl"), train)
    write_lines(os.path.join(args.folder, "terse_held_out.jsonl"), held_out)
    print(f"{len(train)} training rows and {len(held_out)} held-out rows in {args.folder}")


if __name__ == "__main__":
    main()
