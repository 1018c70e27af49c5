"""The reward function of these cases that is not built in."""


def ids_score(completion_ids, bonus, **_):
    """Between 0 and 2.7; None for one completion in five."""
    scores = []
    for ids, extra in zip(completion_ids, bonus):
        total = sum(ids)
        scores.append(None if total % 5 == 2 else (7 * total % 23) / 10 + extra)
    return scores
