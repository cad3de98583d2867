"""Batched multinomial logistic regressions with the objective of scikit-learn's ``LogisticRegression``.

scikit-learn makes hundreds of passes over tens of thousands of programs. Here the regressions of all tokens
of a layer are batched matrix products on minibatches, and each regularization starts from the solution of the
next stronger one.

Shape suffixes: P regressions, N rows, B rows of a batch, D width, K classes.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

LEARNING_RATE = 0.15
"""Peak learning rate of Adam for features of variance 1; decays to 0 within each regularization."""


class Regressions:
    """P regressions on different features of the same rows; a row counts one or more programs.

    Features are standardized, then whitened by S + 1, where S is their within-class covariance; this takes a
    quarter of the steps. The objective is scikit-learn's after ``StandardScaler``: the mean cross-entropy
    plus the squared weights of the standardized features over 2 * C * programs. Intercepts are not penalized.
    Both arguments are float32, the rows in random order; classes may be empty.
    """

    def __init__(self, features_PND: Tensor, counts_NK: Tensor) -> None:
        self._counts_NK = counts_NK
        self._programs = float(counts_NK.sum())
        fraction_N1 = counts_NK.sum(1, keepdim=True) / self._programs
        self._mean_P1D = fraction_N1.mT @ features_PND
        deviation_P1D = (fraction_N1.mT @ (features_PND - self._mean_P1D).square()).sqrt()
        # Treat features that vary only by rounding as constant.
        constant_P1D = deviation_P1D <= 1e-6 * deviation_P1D.amax(2, keepdim=True)
        self._scale_P1D = deviation_P1D.masked_fill(constant_P1D, 1)
        standard_PND = (features_PND - self._mean_P1D) / self._scale_P1D
        self._whitening_PDD = _whitening(standard_PND, counts_NK)
        self._features_PND = standard_PND @ self._whitening_PDD

    def fit(
        self, inverse_regularisations: Sequence[float], steps: Sequence[int], minibatches: int
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Fit each value of C, ascending, starting from the previous solution.

        Yields for each the weights of the original features, shape (P, D, K), and the intercepts, (P, 1, K).
        """
        regressions, rows, width = self._features_PND.shape
        weights_PDK = self._features_PND.new_zeros(regressions, width, self._counts_NK.shape[1])
        intercepts_P1K = torch.zeros_like(weights_PDK[:, :1])
        optimizer = torch.optim.Adam([weights_PDK, intercepts_P1K], betas=(0.9, 0.99), fused=True)
        bounds = np.linspace(0, rows, minibatches + 1).astype(int).tolist()
        batches = [slice(*ends) for ends in itertools.pairwise(bounds)]
        programs_N1 = self._counts_NK.sum(1, keepdim=True)
        scale = minibatches / self._programs
        for c, steps_of_c in zip(inverse_regularisations, steps, strict=True):
            penalty_PDD = self._whitening_PDD.mT @ self._whitening_PDD / (c * self._programs)
            for step in range(steps_of_c):
                batch = batches[step % minibatches]
                x_PBD = self._features_PND[:, batch]
                errors_PBK = torch.baddbmm(intercepts_P1K, x_PBD, weights_PDK).softmax(-1)
                errors_PBK.mul_(programs_N1[batch]).sub_(self._counts_NK[batch])
                weights_PDK.grad = torch.baddbmm(penalty_PDD @ weights_PDK, x_PBD.mT, errors_PBK, alpha=scale)
                intercepts_P1K.grad = errors_PBK.sum(1, keepdim=True) * scale
                optimizer.param_groups[0]["lr"] = LEARNING_RATE * (1 - step / steps_of_c)
                optimizer.step()
            unscaled_PDK = self._whitening_PDD @ weights_PDK / self._scale_P1D.mT
            yield unscaled_PDK, intercepts_P1K - self._mean_P1D @ unscaled_PDK


def _whitening(standard_PND: Tensor, counts_NK: Tensor) -> Tensor:
    """Return (S + 1)^(-1/2) for the within-class covariance S, scaled to a mean variance of 1."""
    programs = counts_NK.sum()
    counts_K1 = counts_NK.sum(0)[:, None]
    means_PKD = counts_NK.T @ standard_PND / counts_K1.clamp_min(1)
    total_PDD = standard_PND.mT @ (standard_PND * counts_NK.sum(1, keepdim=True)) / programs
    between_PDD = means_PKD.mT @ (means_PKD * counts_K1) / programs
    values_PD, vectors_PDD = torch.linalg.eigh((total_PDD - between_PDD).double())
    whitening_PDD = vectors_PDD * (values_PD.clamp_min(0) + 1).rsqrt().unsqueeze(1)
    variances_PD = ((total_PDD.double() @ whitening_PDD) * whitening_PDD).sum(1)
    # The mean variance is 0 if all features are constant.
    scale_P11 = variances_PD.mean(1).sqrt()[:, None, None]
    scaled_PDD: Tensor = whitening_PDD / scale_P11.where(scale_P11 > 0, 1)
    return scaled_PDD.to(standard_PND.dtype)
