from tests.demo_model.conftest import shapes  # noqa: F401
