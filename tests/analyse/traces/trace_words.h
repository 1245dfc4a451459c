// Traces and their parts as words, for expectations.
#pragma once

#include <cstdio>

#include "support/owned.h"
#include "support/temporary_folder.h"

extern "C" {
#include "analyse/traces/traces.h"
#include "core/names.h"
}

class TraceUnderTest
{
  public:
    // "" or "LINE:COLUMN: why not", 0 left out.
    std::string Read(const std::string &text)
    {
        static const TemporaryFolder folder;
        const std::string path = folder.Path("trace");

        std::ofstream(path, std::ios::binary) << text;
        return Load(path);
    }

    std::string Load(const std::string &path)
    {
        stp_error err{};

        stp_trace_free(&trace_);
        if (stp_traces_load(path.c_str(), &trace_, &err) == STP_OK)
            return "";
        return (err.line > 0 ? std::to_string(err.line) + ":" : "") +
               (err.column > 0 ? std::to_string(err.column) + ":" : "") +
               (err.line > 0 ? " " : "") + err.text;
    }

    const stp_trace &get() const
    {
        return trace_;
    }

    stp_trace &get()
    {
        return trace_;
    }

    // A word a row, in order: "step:allreduce:4096:bf16@tp", or
    // "step:gemm:8x4x2:bf16", "step:us:12.5"; "/" for stream comm, "<" where
    // main waits for it.
    std::vector<std::string> Rows() const
    {
        std::vector<std::string> words;
        size_t c = 0;

        for (size_t i = 0; i <= trace_.n_rows; i++) {
            for (; c < trace_.n_computes && trace_.computes[c].row == i; c++)
                words.push_back(Compute(trace_.computes[c]));
            if (i < trace_.n_rows)
                words.push_back(Row(trace_.rows[i]));
        }
        return words;
    }

    // "tp: 2 of world, 1 apart", "world: 4", "tp: 2 of world, 0101".
    std::vector<std::string> Comms() const
    {
        std::vector<std::string> words;

        for (size_t i = 0; i < trace_.n_comms; i++) {
            const stp_trace_comm &c = trace_.comms[i];
            std::ostringstream s;

            s << c.name << ": " << c.n_ranks;
            if (c.creation != STP_INIT)
                s << " of " << trace_.comms[c.parent].name;
            if (c.stride != 0)
                s << ", " << c.stride << " apart";
            for (int r = 0; c.color != nullptr && r < c.n_listed; r++)
                s << (r == 0 ? ", " : "")
                  << (c.color[r] < 0 ? "-" : std::to_string(c.color[r]));
            words.push_back(s.str());
        }
        return words;
    }

    // "2 x isend from line 5"
    std::vector<std::string> Skips() const
    {
        std::vector<std::string> words;

        for (size_t i = 0; i < trace_.n_skips; i++)
            words.push_back(std::to_string(trace_.skips[i].n) + " x " +
                            trace_.skips[i].name + " from line " +
                            std::to_string(trace_.skips[i].line));
        return words;
    }

  private:
    static std::string Place(const stp_trace_place &place)
    {
        return std::string(place.waits ? "<" : "") +
               (place.stream == STP_STREAM_COMM ? "/" : "") +
               std::to_string(place.step) + ":";
    }

    static std::string Compute(const stp_trace_compute &c)
    {
        char text[96];

        if (c.us != 0)
            snprintf(text, sizeof(text), "us:%g", c.us);
        else
            snprintf(text, sizeof(text), "gemm:%ux%ux%u:%s", c.gemm.m, c.gemm.n,
                     c.gemm.k, stp_type_name(c.gemm.type));
        return Place(c.place) + text;
    }

    std::string Row(const stp_trace_row &row) const
    {
        return Place(row.place) + stp_coll_name(int(row.call.coll)) + ":" +
               std::to_string(row.call.n_bytes) + ":" +
               stp_type_name(row.type) + "@" + trace_.comms[row.comm].name;
    }

    Owned<stp_trace, stp_trace_free> trace_;
};
