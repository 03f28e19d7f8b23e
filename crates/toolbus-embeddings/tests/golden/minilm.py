"""Makes minilm.json: all-MiniLM-L6-v2 by numpy and the Python package tokenizers.

    python3 -m venv v && v/bin/pip install numpy==2.4.6 safetensors==0.8.0 tokenizers==0.23.3
    v/bin/python minilm.py FOLDER_OF_THE_MODEL > minilm.json
"""

import json
import math
import sys

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

TEXTS = [
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
    "Create a pull request",
    "naïve CAFÉ 東京 list_issues – don't",
    "HTTPServer v2.0 🎉 reads files" + " x" * 5,
    "a" * 150,
    "list the issues of a repository " * 60,
]
HEADS, LAYERS, EPSILON = 12, 6, 1e-12

folder = sys.argv[1]
weights = {name: value.astype(np.float64) for name, value in load_file(f"{folder}/model.safetensors").items()}
tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
tokenizer.no_padding()
erf = np.vectorize(math.erf)


def dense(x, name):
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def norm(x, name):
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON)
    return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def heads(x):
    return x.reshape(len(x), HEADS, -1).transpose(1, 0, 2)


def embed(text):
    tokens = tokenizer.encode(text).ids
    x = weights["embeddings.word_embeddings.weight"][tokens]
    x = x + weights["embeddings.position_embeddings.weight"][: len(tokens)]
    x = norm(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        q, k, v = (heads(dense(x, f"{at}.attention.self.{part}")) for part in ("query", "key", "value"))
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (scores / scores.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(x.shape)
        x = norm(dense(mixed, f"{at}.attention.output.dense") + x, f"{at}.attention.output.LayerNorm")
        y = dense(x, f"{at}.intermediate.dense")
        y = y * 0.5 * (1 + erf(y / math.sqrt(2)))
        x = norm(dense(y, f"{at}.output.dense") + x, f"{at}.output.LayerNorm")
    vector = x.mean(0)
    return vector / np.linalg.norm(vector)


golden = []
for text in TEXTS:
    golden.append({"text": text, "head": [round(float(value), 5) for value in embed(text)[:8]]})
print(json.dumps(golden, indent=1, ensure_ascii=False))
vectors = [embed(text) for text in TEXTS[:3]]
print([[round(float(a @ b), 4) for a in vectors] for b in vectors], file=sys.stderr)
