"""The transformer encoder inside a PaddleNLP model: where it is, and how to freeze its layers."""

from ..runtime import InputError

import paddle


def encoder_of(model: paddle.nn.Layer) -> paddle.nn.Layer:
    """Return the encoder of a BERT-like model: the layer with `embeddings` and `encoder.layers`.

    A PaddleNLP model with a head keeps it under its `base_model_prefix` (`model.ernie`); a bare
    encoder such as ErnieModel is returned itself.

    Raises:
        InputError: the model is not built like BERT.
    """
    encoder = getattr(model, getattr(model, "base_model_prefix", ""), model)
    if not hasattr(encoder, "embeddings") or not hasattr(encoder, "encoder"):
        raise InputError(type(model).__name__, "has no encoder.layers", "a BERT-like encoder")
    return encoder


def freeze_layers(model: paddle.nn.Layer, layers: int) -> None:
    """Freeze an encoder's embeddings and its lowest layers: half of them save a third of a step.

    Args:
        model: a PaddleNLP model with a transformer encoder, with or without a head.
        layers: how many layers, counted from the embeddings; 0 trains everything again.

    Raises:
        InputError: the model has fewer layers, or is not built like BERT.
    """
    encoder = encoder_of(model)
    count = len(encoder.encoder.layers)
    if not 0 <= layers <= count:  # a command's option; more would freeze all in silence
        raise InputError("layers", f"is {layers}", f"a whole number from 0 to {count}")
    for index, part in enumerate([encoder.embeddings, *encoder.encoder.layers]):
        for parameter in part.parameters():
            parameter.stop_gradient = bool(layers) and index <= layers


def suggested_learning_rate(model: paddle.nn.Layer) -> float:
    """The peak learning rate to fine-tune a model with when nobody has measured a better one.

    Fresh models and the course's backbone carry it in their configuration. For others it is 5e-5,
    usual for ERNIE and BERT.
    """
    return getattr(model.config, "suggested_learning_rate", 5e-5)
