"""Looking inside a model: the states of its layers, and where its heads look."""

import contextlib
from collections.abc import Callable, Iterator, Mapping

from ...models import encoder_of
from ...training.prediction import inference_mode

import numpy as np
import paddle


@contextlib.contextmanager
def recorded(layers: Mapping[str, paddle.nn.Layer]) -> Iterator[dict[str, list[paddle.Tensor]]]:
    """Keep the outputs of layers while the block lasts, by forward post hooks.

    Args:
        layers: the layers to listen to, by any name.

    Yields:
        A dictionary that fills as the model runs: for each name a list with one entry per call. Of
        a layer with several outputs the first is kept. Gradients still flow through them.

    Source: FAQ Q3.8.
    """
    outputs: dict[str, list[paddle.Tensor]] = {name: [] for name in layers}

    def listen(name: str) -> Callable:
        def hook(layer, inputs, output) -> None:
            outputs[name].append(paddle.utils.flatten(output)[0])

        return hook

    with contextlib.ExitStack() as stack:
        for name, layer in layers.items():
            stack.callback(layer.register_forward_post_hook(listen(name)).remove)
        yield outputs


def hidden_states(model: paddle.nn.Layer, *inputs: paddle.Tensor) -> dict[str, np.ndarray]:
    """Run a model without dropout and return the states after its embeddings and each layer.

    Most PaddleNLP models return the same with `output_hidden_states=True`; hooks work for every
    BERT-like model, also for a pruned one or your own.

    Args:
        inputs: of the model, usually input_ids and token_type_ids [batch, length].

    Returns:
        float32 arrays [batch, length, hidden] by name: "embeddings", "layer 1", ...
    """
    encoder = encoder_of(model)
    layers = {f"layer {i}": one for i, one in enumerate(encoder.encoder.layers, start=1)}
    with (
        inference_mode(model),
        recorded({"embeddings": encoder.embeddings, **layers}) as outputs,
    ):
        model(*inputs)
    return {name: calls[0].numpy() for name, calls in outputs.items()}


def attention_maps(model: paddle.nn.Layer, *inputs: paddle.Tensor) -> np.ndarray:
    """How much each token attends to each other token, in every layer and head, without dropout.

    Args:
        model: a PaddleNLP model; it is asked with `output_attentions=True`. (Setting `need_weights`
            of a layer by hand has no effect, because every encoder layer resets it.)
        inputs: as for `hidden_states`.

    Returns:
        float32 of shape [layers, batch, heads, length, length]; each last row sums to 1.
    """
    with inference_mode(model):
        maps = model(*inputs, output_attentions=True, return_dict=True).attentions
    return np.stack([each.numpy() for each in maps])
