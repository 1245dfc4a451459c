// Measurements: ours as CSV and JSON, and what nccl-tests print.
#include "fuzz/fuzz.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
#include "report/json.h"
#include "report/logs/job_log_facts.h"
#include "report/logs/job_log_machine.h"
#include "report/measurements/measurements_csv.h"
#include "report/measurements/nccl_text.h"
#include "report/training/train_json.h"
}

namespace fuzz
{

namespace
{

// The text of a dataset, which is read again and must then be written alike.
std::string Written(const stp_dataset &data)
{
    char *text;
    size_t len;
    FILE *fp = open_memstream(&text, &len);

    stp_measurements_write(&data, "# a fuzzer", fp);
    fclose(fp);
    std::string written(text, len);
    free(text);
    return written;
}

std::string Finish(stp_status status, stp_dataset *data, const stp_error &err)
{
    if (status != STP_OK)
        return data->n_rows != 0 ? "rows after a failure" : FaultOf(err);
    const std::string text = Written(*data);
    stp_dataset again{};
    stp_error refused{};
    std::string fault;

    if (stp_measurements_read(text.data(), text.size(), &again, &refused) !=
        STP_OK)
        fault = std::string("what it writes is refused: ") + refused.text;
    else if (again.n_rows != data->n_rows)
        fault = "what it writes has other rows";
    stp_dataset_free(&again);
    stp_dataset_free(data);
    return fault;
}

} // namespace

std::string MeasurementsCsv(std::string_view bytes)
{
    stp_dataset data{};
    stp_error err{};

    return Finish(
        stp_measurements_read(bytes.data(), bytes.size(), &data, &err), &data,
        err);
}

// The rows of the text, "" if it is refused, with lines of others put in.
std::string RowsOf(std::string_view bytes, const char *foreign)
{
    std::string text, rows;
    stp_dataset data{};

    for (const char c : bytes)
        (text += c) += c == '\n' ? foreign : "";
    if (stp_nccl_text_read(text.data(), text.size(), -1, 0, &data, nullptr,
                           nullptr) == STP_OK)
        rows = Written(data);
    stp_dataset_free(&data);
    return rows;
}

// Text or JSON; also as a file of an arm that is named.
std::string NcclTests(std::string_view bytes)
{
    stp_arm named{};
    std::string fault;

    stp_nccl_text_is(bytes.data(), bytes.size());
    stp_arm_from_name("ring/ll128", 10, &named);
    for (int coll : {-1, static_cast<int>(ncclFuncAllReduce)}) {
        stp_nccl_settings settings{};
        stp_dataset data{};
        stp_error err{};
        fault += Finish(stp_nccl_text_read(bytes.data(), bytes.size(), coll, 0,
                                           &data, &settings, &err),
                        &data, err);
    }
    for (const stp_arm *arm : {static_cast<const stp_arm *>(nullptr),
                               static_cast<const stp_arm *>(&named)}) {
        stp_dataset data{};
        stp_error err{};
        fault += Finish(stp_nccl_text_add(bytes.data(), bytes.size(), -1, 0,
                                          arm, &data, &err),
                        &data, err);
    }
    return fault;
}

// A log, what is printed of it, and the machine that it tells of.
std::string NcclLog(std::string_view bytes)
{
    char *text = static_cast<char *>(malloc(bytes.size() + 1));
    const stp_diagnosis findings{};
    stp_machine_record machine{};
    stp_job_log log{};
    stp_error err{};
    unsigned shape = 0;

    memcpy(text, bytes.data(), bytes.size());
    text[bytes.size()] = '\0';
    if (stp_job_log_read(text, bytes.size(), &log, &err) != STP_OK) {
        free(text);
        return FaultOf(err);
    }
    std::string fault;
    for (bool is_json : {false, true}) {
        char *printed = nullptr;
        size_t size = 0;
        FILE *fp = open_memstream(&printed, &size);
        stp_print_job_log(&log, &findings, is_json, fp);
        fclose(fp);
        for (size_t i = 0; i < size; i++)
            if (static_cast<unsigned char>(printed[i]) < ' ' &&
                printed[i] != '\n' && printed[i] != '\t')
                fault = "a control character is printed";
        free(printed);
    }
    if (stp_log_machine(&log, "NVIDIA H100", &machine, &shape, &err) == STP_OK)
        stp_log_write_graphs(&log, shape, (Folder() + "/graphs.xml").c_str(),
                             &err);
    stp_job_log_free(&log);
    if (!stp_json_looks(bytes.data(), bytes.size()) &&
        bytes.find('\0') == std::string_view::npos &&
        RowsOf(bytes, "") != RowsOf(bytes, "srun: job 12 queued\n"))
        fault += "lines of others change rows";
    return fault;
}

std::string TrainingRuns(std::string_view bytes)
{
    stp_train_runs runs{};
    stp_error err{};

    if (stp_train_read_json(bytes.data(), bytes.size(), &runs, &err) != STP_OK)
        return FaultOf(err);
    stp_train_runs_free(&runs);
    return "";
}

} // namespace fuzz
