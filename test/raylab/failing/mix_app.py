"""An application of Serve that cannot be imported: see mix_scenarios.py."""

from ray import serve
from sentencepiece_acme import Tokenizer


@serve.deployment
class Tokens:
    def __call__(self, text):
        return Tokenizer().tokenize(text)


app = Tokens.bind()
