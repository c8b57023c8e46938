"""Two Serve applications: one that answers, one whose constructor fails."""

from ray import serve


@serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 0.1})
class Hello:
    def __call__(self, request):
        print("hello")
        return "hi"


@serve.deployment(ray_actor_options={"num_cpus": 0.1})
class Front:
    def __init__(self, hello):
        self.hello = hello

    async def __call__(self, request):
        return await self.hello.remote(None)


@serve.deployment(ray_actor_options={"num_cpus": 0.1})
class Unready:
    def __init__(self):
        raise RuntimeError("this deployment does not start")

    def __call__(self, request):
        return "never"


app = Front.bind(Hello.bind())
unready = Unready.bind()
