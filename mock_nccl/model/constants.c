#include "mock_nccl.h"
#include "model/cost_model.h"
#include "versions/versions.h"

void mock_release_constants(int release, ncclTunerConstants_v5_t *constants_ret)
{
    const struct mock_version *version =
        mock_version_find(mock_release_name((size_t)release));

    mock_model_constants(version->model, constants_ret);
}
