"""Applications that Serve deploys from a configuration, as KubeRay's RayService does."""

from ray import serve


@serve.deployment(ray_actor_options={"num_cpus": 0.1})
class Classifier:
    def __init__(self):
        with open("/mnt/weights/classifier-v7.safetensors") as f:
            self.weights = f.read()

    def __call__(self, request):
        return "ok"


app = Classifier.bind()
