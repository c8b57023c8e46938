"""Command lines and steps of wide_scenarios.py."""

import sys


def cli():
    import jsonargparse

    class Trainer:
        def __init__(self, max_epochs: int = 3, precision: str = "32"):
            import ray

            ray.init()
            self.max_epochs = max_epochs

    sys.argv = ["train.py", "--max_epochs", "ten"]
    jsonargparse.CLI(Trainer)


def step():
    import ray

    @ray.remote(num_cpus=0.1)
    def price(row):
        return row["amount"] * row["unit_price"]

    print("pricing", flush=True)
    print(ray.get(price.remote({"amount": 3, "price": 2})))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
