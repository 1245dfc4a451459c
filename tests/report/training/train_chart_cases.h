// Charts of made up results of training, found and written.
#pragma once

extern "C" {
#include "report/training/train_charts.h"
}

#include "report/training/train_made_up.h"
#include "support/charts.h"

namespace made_up
{

// All charts of some runs.
class Charts
{
  public:
    explicit Charts(const Runs &runs) : runs_(runs)
    {
        all = stp_train_charts_find(&runs.all);
    }
    Charts(const Charts &) = delete;
    Charts &operator=(const Charts &) = delete;

    std::vector<std::string> Names() const
    {
        std::vector<std::string> names;
        for (size_t i = 0; i < all.n; i++)
            if (all.all[i].why == nullptr)
                names.push_back(Name(all.all[i]));
        return names;
    }

    std::string Why(const std::string &name) const
    {
        for (size_t i = 0; i < all.n; i++)
            if (Name(all.all[i]) == name)
                return all.all[i].why != nullptr ? all.all[i].why : "drawn";
        return "not there";
    }

    std::string Script(const std::string &name)
    {
        for (size_t i = 0; i < all.n; i++)
            if (Name(all.all[i]) == name)
                return charts::Script([&](stp_chart *chart) {
                    stp_train_chart_make(&runs_.all, &all.all[i], chart);
                });
        return "not there";
    }

    static std::string Name(const stp_train_chart &chart)
    {
        char name[STP_TRAIN_CHART_NAME];
        stp_train_chart_name(&chart, name);
        return name;
    }

    stp_train_charts all{};

  private:
    const Runs &runs_;
};

} // namespace made_up
