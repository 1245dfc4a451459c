#include "machine/recorded.h"

#include <math.h>
#include <stdlib.h>

/* The mean of the piecewise linear distribution with these quantiles. */
static double recorded_quantile_mean(const double q[4])
{
    return .5 * (q[0] + q[1]) / 2 + .45 * (q[1] + q[2]) / 2 +
           .05 * (q[2] + q[3]) / 2;
}

void mock_set_quantiles(const struct mock_record *record, struct mock_row *row)
{
    double *q = row->quantile;
    double scale;

    q[0] = record->min;
    q[1] = record->median;
    q[2] = record->p95;
    q[3] = record->p95;
    q[3] += (record->mean - recorded_quantile_mean(q)) / .025;
    if (q[3] < q[2])
        q[3] = q[2];
    scale = 1 / recorded_quantile_mean(q);
    for (int i = 0; i < 4; i++)
        q[i] *= scale;
}

double mock_quantile(const struct mock_row *row, double at)
{
    const double *q = row->quantile;

    if (at < .5)
        return q[0] + (q[1] - q[0]) * at / .5;
    if (at < .95)
        return q[1] + (q[2] - q[1]) * (at - .5) / .45;
    return q[2] + (q[3] - q[2]) * (at - .95) / .05;
}

struct mock_point *mock_recorded_add(struct mock_recorded *recorded,
                                     const struct mock_record *r)
{
    struct mock_arm *arm = recorded->arms + recorded->n_arms;

    if (recorded->n_arms == 0 || arm[-1].mode != r->mode ||
        arm[-1].graph != r->graph || arm[-1].coll != r->coll ||
        arm[-1].algo != r->algo || arm[-1].proto != r->proto ||
        arm[-1].n_channels != r->n_channels) {
        *arm++ = (struct mock_arm){
            .mode = r->mode,
            .graph = r->graph,
            .coll = r->coll,
            .algo = r->algo,
            .proto = r->proto,
            .n_channels = r->n_channels,
            .sizes.points = &recorded->points[recorded->n_points],
        };
        recorded->n_arms++;
    }
    if (arm[-1].sizes.n_points == 0 ||
        recorded->points[recorded->n_points - 1].n_bytes != r->n_bytes) {
        recorded->points[recorded->n_points++] = (struct mock_point){
            .at = log((double)r->n_bytes),
            .n_bytes = r->n_bytes,
            .rows = &recorded->rows[recorded->n_rows],
            .ratios.points = &recorded->others[recorded->n_others],
        };
        arm[-1].sizes.n_points++;
    }
    return &recorded->points[recorded->n_points - 1];
}

void mock_recorded_free(struct mock_recorded *recorded)
{
    if (recorded == NULL)
        return;
    free(recorded->arms);
    free(recorded->points);
    free(recorded->others);
    free(recorded->rows);
    free(recorded->settings);
    free(recorded);
}
