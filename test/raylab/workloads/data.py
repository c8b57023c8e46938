"""A Ray Data job: a map, an actor pool, a shuffle and a pipeline that fails."""

import ray

ray.init(address="auto")
ray.data.DataContext.get_current().enable_progress_bars = False


class Scale:
    def __call__(self, batch):
        batch["id"] = batch["id"] * 2
        return batch


numbers = ray.data.range(2000, override_num_blocks=8)
print(numbers.map(lambda r: {"id": r["id"] * 2}).filter(lambda r: r["id"] % 3 == 0).sum("id"))
print(numbers.map_batches(Scale, concurrency=1, num_cpus=0.5).count())
print(numbers.random_shuffle().repartition(4).count())


def fails(row):
    raise ValueError("a row that cannot be read")


try:
    numbers.limit(8).map(fails).count()
except Exception as e:
    print("failed as it should:", type(e).__name__)
