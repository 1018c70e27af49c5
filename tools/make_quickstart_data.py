#!/usr/bin/env python3
"""Makes the quickstart's data: orders in free text, and the one strict line that each becomes.

    Could you set aside a dozen red candles? I'll come by on Friday.
    item=red candles; count=12; day=friday

The untrained model is told what to write and still does not keep to the form, so what training adds can be counted.
No held-out prompt shares its item or its sentence with a training row.

usage: tools/make_quickstart_data.py FOLDER [--rows N] [--seed N]
writes FOLDER/train.jsonl     {"messages": [system, user, assistant]}, one per line
       FOLDER/held_out.jsonl  {"messages": [system, user], "expected": "item=..."}, one per line
"""

import argparse
import json
import os
import random

HELD_OUT_ROWS = 50

SYSTEM = "Write the order as one line: item, count, day."

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]

COUNTS = {
    2: ["two", "2"], 3: ["three", "3"], 4: ["four", "4"], 5: ["five", "5"], 6: ["six", "6", "half a dozen"],
    7: ["seven", "7"], 8: ["eight", "8"], 9: ["nine", "9"], 10: ["ten", "10"], 11: ["eleven", "11"],
    12: ["twelve", "12", "a dozen"], 15: ["fifteen", "15"], 20: ["twenty", "20"], 24: ["24", "two dozen"],
    30: ["thirty", "30"], 50: ["fifty", "50"],
}

ADJECTIVES = ["", "", "", "small ", "large ", "red ", "green ", "white ", "plain "]

NOUNS = [
    "apples", "aprons", "bagels", "batteries", "blankets", "bottles", "bowls", "boxes", "bracelets", "bricks",
    "brushes", "buckets", "buttons", "cakes", "calendars", "carrots", "chairs", "cherries", "clocks", "coasters",
    "coats", "cookies", "crayons", "cucumbers", "cups", "cushions", "desks", "doughnuts", "eggs", "envelopes",
    "erasers", "fans", "forks", "frames", "garden hoses", "gloves", "grapes", "hammers", "hinges", "kettles", "kites",
    "ladders", "lanterns", "lemons", "light bulbs", "magnets", "mangoes", "melons", "mirrors", "muffins", "mugs",
    "nails", "napkins", "newspapers", "notebooks", "onions", "paint rollers", "pancakes", "paper bags", "pears",
    "pencils", "peppers", "pies", "pillows", "pizzas", "plates", "posters", "potatoes", "pots", "puzzles", "radishes",
    "ropes", "roses", "rugs", "rulers", "sandwiches", "scarves", "scissors", "screws", "shirts", "soap bars",
    "sponges", "spoons", "stamps", "stools", "strawberries", "sunflowers", "tables", "tents", "tiles", "tomatoes",
    "toothbrushes", "towels", "toys", "trays", "tulips", "waffles", "wheels", "whistles",
]
HELD_OUT_NOUNS = [
    "baskets", "bananas", "candles", "croissants", "curtains", "flower pots", "folders", "hats", "jars", "keys",
    "lamps", "markers", "oranges", "peaches", "ribbons", "shelves", "socks", "tickets", "umbrellas", "vases",
]

SENTENCES = [
    "I would like {count} {item} for {day}, please.",
    "Could you set aside {count} {item}? I'll come by on {day}.",
    "Please send {count} {item} on {day}.",
    "We need {count} {item} by {day}.",
    "On {day} I want to pick up {count} {item}.",
    "Can I order {count} {item} to arrive on {day}?",
    "This is for {day}: {count} {item}.",
    "{day} works best for us, and we will take {count} {item}.",
    "Put me down for {count} {item} this {day}.",
    "My order is {count} {item}, delivery on {day}.",
    "Next {day} there is a party, so bring {count} {item}.",
    "I'd take {count} {item} if you can deliver on {day}.",
    "By {day} at the latest we must have {count} {item}.",
    "Let's say {count} {item}, and {day} for the pick-up.",
]
HELD_OUT_SENTENCES = [
    "Could I get {count} {item} on {day}?",
    "We are expecting guests on {day} and want {count} {item}.",
    "Please have {count} {item} ready for {day}.",
    "For {day}, reserve {count} {item} for us.",
    "I need {count} {item} and can collect them on {day}.",
    "My mother asked for {count} {item}, ideally on {day}.",
]

GREETINGS = ["", "", "Hi! ", "Hello. ", "Good morning. "]
FAREWELLS = ["", "", " Thanks!", " Thank you.", " Cheers, Sam."]


def make_order(rng, nouns, sentences):
    """Returns one order as (free text, strict line)."""
    item = rng.choice(ADJECTIVES) + rng.choice(nouns)
    count = rng.choice(list(COUNTS))
    day = rng.choice(DAYS)
    sentence = rng.choice(sentences).format(item=item, count=rng.choice(COUNTS[count]), day=day)
    text = rng.choice(GREETINGS) + sentence + rng.choice(FAREWELLS)
    return text, f"item={item}; count={count}; day={day.lower()}"


def make_orders(rng, rows, nouns, sentences):
    """Returns `rows` orders, no text twice."""
    orders = {}
    while len(orders) < rows:
        text, line = make_order(rng, nouns, sentences)
        orders[text] = line
    return list(orders.items())


def prompt(text):
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]


def write_lines(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--rows", type=int, default=800, help="training rows (800)")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()

    rng = random.Random(args.seed)
    train = make_orders(rng, args.rows, NOUNS, SENTENCES)
    held_out = make_orders(rng, HELD_OUT_ROWS, HELD_OUT_NOUNS, HELD_OUT_SENTENCES)

    os.makedirs(args.folder, exist_ok=True)
    write_lines(os.path.join(args.folder, "train.jsonl"),
                [{"messages": prompt(text) + [{"role": "assistant", "content": line}]} for text, line in train])
    write_lines(os.path.join(args.folder, "held_out.jsonl"),
                [{"messages": prompt(text), "expected": line} for text, line in held_out])
    print(f"{len(train)} training rows and {len(held_out)} held-out prompts in {args.folder}")


if __name__ == "__main__":
    main()
