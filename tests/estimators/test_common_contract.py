"""The scikit-learn contract, the same for every step-time estimator."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.utils.estimator_checks import check_estimator

from surrogate.estimators import AnalyticModel, HybridPredictor

ESTIMATORS = [AnalyticModel(), AnalyticModel(calibrate=False), HybridPredictor(num_threads=1)]
QUICK = [AnalyticModel(rows_per_source=5), HybridPredictor(num_threads=1, conformal_levels=("release",))]
NEEDS_A_RUNS_TABLE = "scikit-learn fits random arrays; a step time needs the columns of a configuration"
PREDICTS_FROM_A_TABLE_ONLY = {
    # checks of scikit-learn that hand over arrays of random numbers; every other one must pass
    "check_complex_data",
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimator_sparse_tag",
    "check_estimators_dtypes",
    "check_estimators_empty_data_messages",
    "check_estimators_fit_returns_self",
    "check_estimators_nan_inf",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_fit1d",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_fit_score_takes_y",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
    "check_regressor_data_not_an_array",
    "check_regressors_int",
    "check_regressors_no_decision_function",
    "check_regressors_train",
    "check_requires_y_none",
    "check_supervised_y_2d",
    "check_supervised_y_no_nan",
}


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
class TestUnfitted:
    def test_is_a_regressor_that_clones_to_the_same_parameters(self, estimator):
        assert is_regressor(estimator)
        assert clone(estimator).get_params() == estimator.get_params()
        assert clone(estimator) is not estimator

    def test_init_only_stores(self, estimator):
        parameters = inspect.signature(type(estimator).__init__).parameters
        names = [name for name in parameters if name != "self"]
        assert sorted(vars(type(estimator)())) == sorted(names)
        assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in names)

    def test_set_params(self, estimator):
        changed = clone(estimator).set_params(rows_per_source=7)
        assert changed.get_params()["rows_per_source"] == 7
        with pytest.raises(ValueError, match="Invalid parameter"):
            changed.set_params(depth=3)

    def test_predicting_first_is_an_error(self, estimator, plans):
        for method in ("predict", "predict_log", "predict_frame", "nearest_runs"):
            if hasattr(estimator, method):
                with pytest.raises(NotFittedError):
                    getattr(clone(estimator), method)(plans)
        if hasattr(estimator, "condition"):
            with pytest.raises(NotFittedError):
                clone(estimator).condition(plans)

    @pytest.mark.filterwarnings("ignore")
    def test_scikit_learns_own_checks(self, estimator):
        results = check_estimator(
            clone(estimator),
            expected_failed_checks=dict.fromkeys(PREDICTS_FROM_A_TABLE_ONLY, NEEDS_A_RUNS_TABLE),
            on_fail=None,
            on_skip=None,
        )
        status = pd.Series({result["check_name"]: result["status"] for result in results})
        assert not list(status.index[status == "failed"])
        assert (status == "passed").sum() >= 8
        assert {"check_get_params_invariance", "check_set_params", "check_no_attributes_set_in_init"} <= set(
            status.index[status == "passed"]
        )


@pytest.mark.parametrize("estimator", QUICK, ids=repr)
class TestFitted:
    @pytest.fixture
    def few(self, measured_runs) -> pd.DataFrame:
        return measured_runs.iloc[::16].reset_index(drop=True)

    def test_fit_returns_itself_and_leaves_the_table_alone(self, estimator, few):
        before, model = few.copy(), clone(estimator)
        assert model.fit(few) is model
        model.predict(few)
        pd.testing.assert_frame_equal(few, before)
        assert list(model.feature_names_in_) == list(few.columns)
        assert model.n_features_in_ == few.shape[1]
        assert model.get_params() == estimator.get_params()

    def test_fitting_again_forgets(self, estimator, few):
        # nor does the index of the table matter
        once = clone(estimator).fit(few)
        twice = clone(estimator).fit(few.iloc[::2]).fit(few.set_index(np.arange(len(few))[::-1]))
        np.testing.assert_array_equal(once.predict(few), twice.predict(few))

    def test_score_is_r2_of_seconds(self, estimator, few):
        seconds = few.measured_step_time_s.to_numpy(dtype=np.float64)
        assert 0.5 < clone(estimator).fit(few).score(few, seconds) <= 1.0


def test_cross_validation_by_publisher(measured_runs):
    few = measured_runs.iloc[::9].reset_index(drop=True)
    seconds = few.measured_step_time_s.to_numpy(dtype=np.float64)
    groups = pd.factorize(few.publisher_family)[0]
    held_out = cross_val_predict(AnalyticModel(), few, seconds, groups=groups, cv=GroupKFold(3))
    assert np.median(np.abs(np.log(held_out / seconds))) < 0.30
