"""Pipelines of Ray Data."""

import os
import sys
import time

import ray
import ray.data

ray.data.DataContext.get_current().enable_progress_bars = False


def key():
    def score_batch(batch):
        return {"score": batch["embedding"] * 2}

    ray.data.range(100, override_num_blocks=2).map_batches(score_batch).materialize()


def not_parquet():
    os.makedirs("/tmp/app/events", exist_ok=True)
    with open("/tmp/app/events/part-0007.parquet", "wb") as f:
        f.write(b"<html>503 Service Unavailable</html>" * 20)
    ray.data.read_parquet("/tmp/app/events/part-0007.parquet").count()


class Embedder:
    def __call__(self, batch):
        os._exit(17)


def pool_exits():
    ray.data.range(20, override_num_blocks=1).map_batches(Embedder, concurrency=1).materialize()


def collate():
    """The driver's own function fails on what it reads."""

    def to_tensor(batch):
        return batch["id"][99_999]

    for batch in ray.data.range(100).iter_batches(batch_size=50, _collate_fn=to_tensor):
        print(batch)


def no_column():
    ray.data.range(100).sort("customer_id").take(3)


def no_gpu():
    class Captioner:
        def __call__(self, batch):
            return batch

    print("captioning", flush=True)
    ray.data.range(100).map_batches(Captioner, concurrency=1, num_gpus=1).materialize()


def memory():
    def explode_rows(row):
        held = []
        while row["id"] == 0:
            held.append(b"x" * 80_000_000)
            time.sleep(0.15)
        return row

    ray.data.range(2, override_num_blocks=1).map(explode_rows).materialize()


def filter_fails():
    """Rows that only one of the blocks has."""

    def is_recent(row):
        return row["id"] < 90 or row["date"] > "2026"

    def enrich(row):
        row["country"] = "de"
        return row

    print(ray.data.range(100, override_num_blocks=4).map(enrich).filter(is_recent).count())


def zipped():
    ray.data.range(100).zip(ray.data.range(90)).materialize()


def bad_json():
    os.makedirs("/tmp/app/clicks", exist_ok=True)
    with open("/tmp/app/clicks/clicks-12.jsonl", "w") as f:
        f.write('{"user": 1}\n{"user": 2\n')
    ray.data.read_json("/tmp/app/clicks/clicks-12.jsonl").materialize()


def wrong_type():
    def to_features(batch):
        return [len(batch)]

    ray.data.range(10).map_batches(to_features).materialize()


def column():
    """A function that works on pandas' columns, not on Arrow's."""
    ray.data.range(40).add_column("customer", lambda d: d["id"] % 2).groupby("customer").count().materialize()


def no_permission():
    """The folder to write to is a file."""
    with open("/tmp/app/export", "w") as f:
        f.write("taken")
    ray.data.range(10).write_parquet("local:///tmp/app/export/daily")


def missing_input():
    ray.data.read_csv("/tmp/app/landing/2026-11-24/").materialize()


class Tokenizer:
    def __init__(self, vocabulary):
        self.vocabulary = {"unk": vocabulary["unk_token"]}

    def __call__(self, batch):
        return batch


def constructor():
    """The constructor of a pool's actors fails."""
    ray.data.range(20).map_batches(Tokenizer, concurrency=1, fn_constructor_args=({"pad": 0},)).materialize()


def too_many_errors():
    """Some blocks may fail, not so many."""
    ray.data.DataContext.get_current().max_errored_blocks = 1

    def resize_image(row):
        if row["id"] % 2:
            raise OSError(f"image file img-{row['id']:04d}.jpg is truncated")
        return row

    ray.data.range(6, override_num_blocks=6).map(resize_image).materialize()


def async_function():
    """An async map function raises."""

    class Geocoder:
        async def __call__(self, batch):
            yield {"x": batch["address"]}

    ray.data.range(20, override_num_blocks=2).map_batches(Geocoder, concurrency=1).materialize()


def bad_csv():
    os.makedirs("/tmp/app/sales", exist_ok=True)
    with open("/tmp/app/sales/eu.csv", "w") as f:
        f.write("day,shop,sum\n1,2,3\n1,2,3,4\n")
    ray.data.read_csv("/tmp/app/sales").materialize()


def uneven_columns():
    def tokenize(batch):
        return {"ids": list(range(5)), "mask": list(range(4))}

    ray.data.range(20, override_num_blocks=1).map_batches(tokenize).materialize()


def grouped():
    def last_price(group):
        return {"last": group["price"][-1:]}

    ray.data.from_items([{"shop": i % 2} for i in range(10)]).groupby("shop").map_groups(last_price).materialize()


def pool_holds_all():
    """Actors hold every CPU, what feeds them waits for one."""

    class Identity:
        def __call__(self, batch):
            return batch

    print("mapping", flush=True)
    ray.data.range(4, override_num_blocks=2).map_batches(Identity, concurrency=2, num_cpus=1).materialize()


def skips_errors():
    """Two blocks may fail, two do."""
    ray.data.DataContext.get_current().max_errored_blocks = 2

    def parse(batch):
        if 0 in batch["id"]:
            raise ValueError("row 0 cannot be parsed")
        return batch

    print(ray.data.range(40, override_num_blocks=4).map_batches(parse).count())


def own_exit():
    """The driver says what the dataset raised in its own words."""

    def embed(batch):
        raise ValueError("token 50257 is out of the vocabulary")

    try:
        ray.data.range(20, override_num_blocks=2).map_batches(embed).materialize()
    except Exception as e:
        print(f"embedding step: {type(e).__name__}", flush=True)
        sys.exit(4)


def hangs():
    """A map function asks a server that never answers, a limit of the shell's ends the driver."""

    def look_up_geo(batch):
        time.sleep(600)
        return batch

    ray.data.range(100, override_num_blocks=2).map_batches(look_up_geo).materialize()


def own_source():
    """A datasource of the user's raises in its read task."""
    from ray.data.block import BlockMetadata
    from ray.data.datasource import Datasource, ReadTask

    class Events(Datasource):
        def estimate_inmemory_data_size(self):
            return None

        def get_read_tasks(self, parallelism, *more, **options):
            def read():
                raise LookupError("stream eu-raw-3 has no partition 9")

            about = BlockMetadata(num_rows=1, size_bytes=1, input_files=None, exec_stats=None)
            return [ReadTask(read, about)]

    ray.data.read_datasource(Events()).materialize()


def torch_batches():
    """What iterates needs a library that is not there."""
    for batch in ray.data.range(10).iter_torch_batches():
        print(batch)


def joined():
    """A join over a column that one side lacks."""
    orders = ray.data.from_items([{"user": i, "total": i} for i in range(9)])
    users = ray.data.from_items([{"id": i, "name": str(i)} for i in range(9)])
    orders.join(users, "inner", 2, on=("user",), right_on=("user_id",)).materialize()


def crashes_in_pool():
    """The function's library crashes in two of the pool's actors, until no retry is left."""
    import ctypes

    class Decode:
        def __call__(self, batch):
            sys.stderr.write("libav: corrupt header in clip-88.mp4\n")
            sys.stderr.flush()
            ctypes.string_at(0)

    ray.data.DataContext.get_current().actor_task_retry_on_errors = False
    ray.data.range(20, override_num_blocks=2).map_batches(Decode, concurrency=1, num_cpus=0.5, max_restarts=0, max_task_retries=0).materialize()


def enough_of_it():
    """limit() cancels what is not needed any more."""
    def slow(batch):
        time.sleep(0.2)
        return batch

    print(ray.data.range(2000, override_num_blocks=40).map_batches(slow).take(5), flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
