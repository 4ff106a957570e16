"""Every error that quotientgeo raises on purpose: what was wrong, where, and what to do about it; and the words of messages."""

from collections.abc import Sequence


def first_line(error: BaseException) -> str:
    """The first line of another's error; its class where it has no words."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def one_line(error: BaseException) -> str:
    """All words of another's error, on one line."""
    return " ".join(str(error).split())


def some_of(names: Sequence[str], most: int) -> str:
    """'a, b, c and 4 more'."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


class QuotientgeoError(Exception):
    """Base of all named errors."""


class DeclarationError(QuotientgeoError, ValueError):
    """A symmetry or a metric is written in a way that cannot be derived from (shapes, names, unknown operations)."""


class NotDerivableError(QuotientgeoError, NotImplementedError):
    """The declaration is understood, but a step of its derivation has no closed form in the matrix algebra."""


class AbsentOperationError(QuotientgeoError, NotImplementedError):
    """A geometry does not have this operation; the message says why, and what to use instead."""


class CertificateError(QuotientgeoError):
    """A claim about a declared geometry is false; the message carries a witness."""


class ShapeError(QuotientgeoError, ValueError):
    """Tensors do not have the documented shapes, dtypes or devices."""


class NonFiniteError(QuotientgeoError, ValueError):
    """A tensor holds NaN or infinity, or a product of two leaves the range of float64."""


class RankDeficientError(QuotientgeoError):
    """A factor, or the product G H', has lost rank: the quotient has no tangent space of the declared dimension there."""


class GeodesicCollapseError(QuotientgeoError):
    """A mixed geodesic ran into the singular set: s_h(G H') fell below the stated fraction of its start."""


class GeodesicAccuracyError(QuotientgeoError):
    """Doubling the integrator's steps did not reach the stated accuracy within its cap."""


class LogarithmError(QuotientgeoError):
    """No geodesic that connects two orbits was found."""


class UnknownArchitectureError(QuotientgeoError):
    """No rule describes this model's blocks; the message lists attention-like modules and how to add blocks."""


class BlockError(QuotientgeoError, ValueError):
    """A block's legs do not fit the model: missing tensor, index out of range, overlap with another block."""


class SymmetryError(QuotientgeoError):
    """A declared symmetry does not hold on this model (or this batch cannot tell)."""


class CheckpointError(QuotientgeoError, ValueError):
    """A checkpoint folder cannot be loaded completely and safely."""


class ArgumentError(QuotientgeoError, ValueError):
    """An argument of a public function is outside its allowed values."""


class LossError(QuotientgeoError, ValueError):
    """The loss broke its contract: neither (sum, count) nor a mean scalar, or a mean that was asked to be split."""


class NonFiniteLossError(QuotientgeoError):
    """The loss is NaN or infinite at the starting point or inside the ball."""


class ModeError(QuotientgeoError):
    """The model is in a mode in which its loss is not a function of its parameters (training mode)."""


class DataError(QuotientgeoError, ValueError):
    """The batches are empty, shuffled or otherwise not a fixed sample."""


class TaskError(QuotientgeoError):
    """A task file cannot be read, lacks one of its functions, or failed in one of them."""
