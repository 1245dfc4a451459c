// Charts as text: gnuplot's script, its settings and its data.
#pragma once

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>

extern "C" {
#include "report/charts/chart.h"
}

#include "support/temporary_folder.h"
#include "support/written.h"

namespace charts
{

// The script of the chart that 'make' makes.
template <typename Make>
std::string Script(Make make, stp_plot_format format = STP_PLOT_SVG)
{
    stp_chart chart;
    make(&chart);
    std::string script =
        Written([&](FILE *fp) { stp_chart_write(&chart, format, fp); });
    stp_chart_free(&chart);
    return script;
}

// The settings, between the data and the frame of all templates.
inline std::string Settings(const std::string &script)
{
    const std::string begin = "\ndata = '$data'\n", end = "\n# frame.gp";
    size_t at = script.find(begin);
    EXPECT_NE(std::string::npos, at);
    at += begin.size();
    return script.substr(at, script.find(end) - at);
}

// The setting, as it stands in the script; "none" if it does not.
inline std::string Setting(const std::string &script, const std::string &name)
{
    const std::string all = "\n" + Settings(script);
    size_t at = all.find("\n" + name + " = ");
    if (at == std::string::npos)
        return "none";
    at += name.size() + 4;
    return all.substr(at, all.find('\n', at) - at);
}

// The elements of an array, without the quotes of texts.
inline std::vector<std::string> Array(const std::string &script,
                                      const std::string &name)
{
    std::vector<std::string> values;
    for (size_t i = 1;; i++) {
        std::string value =
            Setting(script, name + "[" + std::to_string(i) + "]");
        if (value == "none")
            return values;
        if (value.front() == '\'')
            value = value.substr(1, value.size() - 2);
        values.push_back(value);
    }
}

inline std::vector<std::string> Legend(const std::string &script)
{
    return Array(script, "titles");
}

// The blocks of the data, with spaces for tabs.
inline std::vector<std::string> Blocks(const std::string &script)
{
    const std::string begin = "$data << EOD\n", gap = "\n\n\n";
    const size_t at = script.find('\n', script.find(begin) + begin.size()) + 1;
    std::string data = script.substr(at, script.find("EOD\n", at) - at);
    std::vector<std::string> blocks;

    std::replace(data.begin(), data.end(), '\t', ' ');
    for (size_t end; (end = data.find(gap)) != std::string::npos;) {
        blocks.push_back(data.substr(0, end + 1));
        data.erase(0, end + gap.size());
    }
    blocks.push_back(data);
    return blocks;
}

// Settings and data, without the templates.
inline std::string Essence(const std::string &script)
{
    std::string text = Settings(script);
    for (const std::string &block : Blocks(script))
        text += "\n" + block;
    return text;
}

inline bool HasGnuplot()
{
    return std::system("gnuplot --version >/dev/null 2>&1") == 0;
}

// The numbers that gnuplot has for these expressions after the script.
inline std::string Printed(const std::string &script,
                           const std::vector<std::string> &expressions)
{
    const TemporaryFolder folder;
    const std::string path = folder.Path("script");
    std::ofstream file(path);
    file << script << "\nprint ''";
    for (const std::string &e : expressions)
        file << ", sprintf('%g', " << e << ")";
    file << "\n";
    file.close();

    std::string said;
    FILE *pipe = popen(("gnuplot '" + path + "' 2>&1 >/dev/null").c_str(), "r");
    for (int c; (c = fgetc(pipe)) != EOF;)
        said.push_back(static_cast<char>(c));
    EXPECT_EQ(0, pclose(pipe));
    return said;
}

} // namespace charts
