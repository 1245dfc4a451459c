// What mock_loader_versions_test.cc expects of each version, word for word.
//
// From the sources of 2.21.5, 2.22.3 (as 2.23.4), 2.24.3 (as 2.25.1), 2.26.6,
// 2.27.7, 2.28.9 (as 2.29.7) and 2.30.7 (as the branch after it):
// src/misc/tuner.cc, then src/plugin/ and src/os/linux.cc.
#ifndef MOCK_LOADER_CASES_H
#define MOCK_LOADER_CASES_H

#include <string>
#include <vector>

namespace mock_test
{

// Each line begins with its subsystems: E ENV, I INIT, T TUNING, D DESTROY.
// In all texts @ is the folder of the test's plugins, and % that of a file
// which is no library.
struct LoaderCase {
    std::string name;
    std::string version;
    const char *value; // of NCCL_TUNER_PLUGIN
    const char *net;   // of NCCL_NET_PLUGIN
    int want;          // the tuner's version; 0: none
    std::vector<std::string> lines;
};

#define T            "TUNER/Plugin: "
#define NO_FILE      ": cannot open shared object file: No such file or directory"
#define BROKEN       "%/broken.so: file too short"
#define ALL          "@/libnccl-tuner-all_versions.so"
#define NO_SYMBOL    "@/libnccl-tuner-no_symbol.so"
#define V2           "@/libnccl-tuner-echo_v2.so"
#define UNRESOLVED   "@/libnccl-tuner-unresolved.so"
#define SET          "NCCL_TUNER_PLUGIN set to "
#define BY_ENV       "Plugin name set by env to "
#define SET_2_28     "ET NCCL_TUNER_PLUGIN set by environment to "
#define INTERNAL     "Using internal tuner plugin."
#define OS(name)     "I ncclOsDlopen(" name ") failed: " name NO_FILE
#define NO_SYM(name) "Failed to find ncclTunerPlugin_" name " symbol"
#define NO_LAST      NO_SYM("v2") ", using internal tuner instead."
#define NO_DLSYM(lib, name)                                                    \
    "I ncclOsDlsym(ncclTunerPlugin_" name ") failed: " lib                     \
    ": undefined symbol: ncclTunerPlugin_" name

inline std::vector<LoaderCase> Cases_2_21()
{
    const std::string v = "2.21";
    return {
        {"unset",
         v,
         nullptr,
         nullptr,
         0,
         {"ET " T "No plugin found (libnccl-tuner.so)",
          "ET " T "No plugin found (libnccl-net.so)",
          "ET " T "Plugin load returned 2 : libnccl-net.so" NO_FILE
          " : when loading libnccl-tuner.so",
          "ET " T INTERNAL}},
        {"empty_is_unset",
         v,
         "",
         "",
         0,
         {"ET " T "No plugin found (libnccl-tuner.so)",
          "ET " T "No plugin found (libnccl-net.so)",
          "ET " T "Plugin load returned 2 : libnccl-net.so" NO_FILE
          " : when loading libnccl-tuner.so",
          "ET " T INTERNAL}},
        {"not_there",
         v,
         "nope",
         nullptr,
         0,
         {"ET " T SET "nope", "ET " T "No plugin found (nope)",
          "ET " T "No plugin found (libnccl-tuner-nope.so)",
          "ET " T "No plugin found (libnccl-net.so)",
          "ET " T "Most recent plugin load returned 2 : libnccl-net.so" NO_FILE
          ". All attempts to load 'nope libnccl-tuner-nope.so' also failed.",
          "ET " T INTERNAL}},
        {"static_plugin_is_a_name",
         v,
         "STATIC_PLUGIN",
         "no_net",
         0,
         {"ET " T SET "STATIC_PLUGIN",
          "ET " T "No plugin found (STATIC_PLUGIN)",
          "ET " T "No plugin found (libnccl-tuner-STATIC_PLUGIN.so)",
          "ET " T "No plugin found (no_net)",
          "ET " T "No plugin found (libnccl-net-no_net.so)",
          "ET " T "Most recent plugin load returned 2 : "
          "libnccl-net-no_net.so" NO_FILE ". All attempts to load "
          "'STATIC_PLUGIN libnccl-tuner-STATIC_PLUGIN.so no_net' also failed.",
          "ET " T INTERNAL}},
        {"does_not_load",
         v,
         "%/broken.so",
         nullptr,
         0,
         {"ET " T SET "%/broken.so", "ET " T "No plugin found (%/broken.so)",
          "ET " T "No plugin found (libnccl-tuner-%/broken.so.so)",
          "ET " T "No plugin found (libnccl-net.so)",
          "ET " T "Most recent plugin load returned 2 : libnccl-net.so" NO_FILE
          ". All attempts to load '%/broken.so libnccl-tuner-%/broken.so.so' "
          "also failed.",
          "ET " T INTERNAL}},
        {"lacks_a_function",
         v,
         UNRESOLVED,
         nullptr,
         0,
         {"ET " T SET UNRESOLVED, "ET " T BY_ENV UNRESOLVED,
          "ET " T "Failed to find ncclTunerPlugin_v2, using internal tuner "
          "instead."}},
        {"no_symbol",
         v,
         "no_symbol",
         nullptr,
         0,
         {"ET " T SET "no_symbol", "ET " T "No plugin found (no_symbol)",
          "ET " T BY_ENV "libnccl-tuner-no_symbol.so",
          "ET " T "Failed to find ncclTunerPlugin_v2, using internal tuner "
          "instead."}},
        {"ok",
         v,
         ALL,
         nullptr,
         2,
         {"ET " T SET ALL, "ET " T BY_ENV ALL, "ET " T "Using tuner plugin all",
          "T " T "Closing tuner: 'all'"}},
        {"in_the_net_plugin",
         v,
         "nope",
         ALL,
         2,
         {"ET " T SET "nope", "ET " T "No plugin found (nope)",
          "ET " T "No plugin found (libnccl-tuner-nope.so)", "ET " T BY_ENV ALL,
          "ET " T "Using tuner plugin all", "T " T "Closing tuner: 'all'"}},
    };
}

// The lines on a library of which no symbol newer than v2 is known.
inline std::vector<std::string> NoSymbols(int newest)
{
    std::vector<std::string> lines;
    for (int v = newest; v > 2; v--)
        lines.push_back("ET " T "Failed to find ncclTunerPlugin_v" +
                        std::to_string(v) + " symbol.");
    return lines;
}

inline std::vector<std::string> operator+(std::vector<std::string> a,
                                          const std::vector<std::string> &b)
{
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

using L = std::vector<std::string>;

inline std::vector<LoaderCase> Cases_2_22(const std::string &v, int newest)
{
    return {
        {"unset",
         v,
         nullptr,
         nullptr,
         0,
         {"ET " T
          "Could not find: libnccl-tuner.so libnccl-net.so. " INTERNAL}},
        {"not_there",
         v,
         "nope",
         "no_net",
         0,
         {"ET " T SET "nope",
          "ET " T "Could not find: nope "
          "libnccl-tuner-nope.so no_net libnccl-net-no_net.so. " INTERNAL}},
        {"none_is_a_name",
         v,
         "none",
         nullptr,
         0,
         {"ET " T SET "none",
          "ET " T "Could not find: none "
          "libnccl-tuner-none.so libnccl-net.so. " INTERNAL}},
        {"does_not_load",
         v,
         "%/broken.so",
         nullptr,
         0,
         {"ET " T SET "%/broken.so", "ET " T BROKEN,
          "ET " T "Could not find: libnccl-tuner-%/broken.so.so "
          "libnccl-net.so. " INTERNAL}},
        {"lacks_a_function", v, UNRESOLVED, nullptr, 0,
         L{"ET " T SET UNRESOLVED, "ET " T BY_ENV UNRESOLVED} +
             NoSymbols(newest) + L{"ET " T NO_LAST}},
        {"no_symbol", v, NO_SYMBOL, nullptr, 0,
         L{"ET " T SET NO_SYMBOL, "ET " T BY_ENV NO_SYMBOL} +
             NoSymbols(newest) + L{"ET " T NO_LAST}},
        {"v2", v, "echo_v2", nullptr, 2,
         L{"ET " T SET "echo_v2", "ET " T BY_ENV "libnccl-tuner-echo_v2.so"} +
             NoSymbols(newest) +
             L{"ET " T "Using tuner plugin echo",
               "T " T "Closing tuner: 'echo'"}},
        {"ok",
         v,
         ALL,
         nullptr,
         newest,
         {"ET " T SET ALL, "ET " T BY_ENV ALL, "ET " T "Using tuner plugin all",
          "T " T "Closing tuner: 'all'"}},
        {"in_the_net_plugin",
         v,
         nullptr,
         ALL,
         newest,
         {"ET " T BY_ENV ALL, "ET " T "Using tuner plugin all",
          "T " T "Closing tuner: 'all'"}},
    };
}

inline std::vector<LoaderCase> Cases_2_26()
{
    const std::string v = "2.26";
    return {
        {"unset",
         v,
         nullptr,
         nullptr,
         0,
         {"IT " T "Could not find: libnccl-tuner.so. " INTERNAL}},
        {"not_there_names_the_last_only",
         v,
         "nope",
         "no_net",
         0,
         {"IT " T "Could not find: libnccl-tuner-nope.so. " INTERNAL}},
        {"none_is_a_name",
         v,
         "none",
         nullptr,
         0,
         {"IT " T "Could not find: libnccl-tuner-none.so. " INTERNAL}},
        {"does_not_load",
         v,
         "%/broken.so",
         nullptr,
         0,
         {"IT " T BROKEN, "IT " T "Could not find: "
                          "libnccl-tuner-%/broken.so.so. " INTERNAL}},
        {"lacks_a_function",
         v,
         UNRESOLVED,
         nullptr,
         0,
         {"IT " T UNRESOLVED ": undefined symbol: no_such_function",
          "IT " T "Could not find: libnccl-tuner-" UNRESOLVED
          ".so. " INTERNAL}},
        {"no_symbol", v, NO_SYMBOL, nullptr, 0,
         L{"IT " T BY_ENV NO_SYMBOL} + NoSymbols(4) + L{"ET " T NO_LAST}},
        {"ok",
         v,
         "all_versions",
         nullptr,
         4,
         {"IT " T BY_ENV "libnccl-tuner-all_versions.so",
          "ET " T "Using tuner plugin all", "T " T "Closing tuner: 'all'"}},
        {"in_the_net_plugin",
         v,
         "nope",
         ALL,
         4,
         {"IT " T "Could not find: libnccl-tuner-nope.so. " INTERNAL,
          "ET " T "Using tuner plugin all", "T " T "Closing tuner: 'all'"}},
    };
}

inline std::vector<LoaderCase> Cases_2_27()
{
    const std::string v = "2.27";
    return {
        {"unset",
         v,
         nullptr,
         nullptr,
         0,
         {"IT " T "Could not find: libnccl-tuner.so. " INTERNAL}},
        {"not_there",
         v,
         "nope",
         "no_net",
         0,
         {"IT " T "Could not find: nope libnccl-tuner-nope.so. " INTERNAL}},
        {"none_is_a_name",
         v,
         "none",
         nullptr,
         0,
         {"IT " T "Could not find: none libnccl-tuner-none.so. " INTERNAL}},
        {"does_not_load",
         v,
         "%/broken.so",
         nullptr,
         0,
         {"IT " T BROKEN, "IT " T INTERNAL}},
        {"no_symbol", v, NO_SYMBOL, nullptr, 0,
         L{"IT " T BY_ENV NO_SYMBOL} + NoSymbols(4) + L{"ET " T NO_LAST}},
        {"ok",
         v,
         ALL,
         nullptr,
         4,
         {"IT " T BY_ENV ALL, "ET " T "Using tuner plugin all",
          "T " T "Closing tuner: 'all'"}},
        {"in_the_net_plugin", v, nullptr, V2, 2,
         L{"IT " T "Could not find: libnccl-tuner.so. " INTERNAL} +
             NoSymbols(4) +
             L{"ET " T "Using tuner plugin echo",
               "T " T "Closing tuner: 'echo'"}},
    };
}

inline std::vector<LoaderCase> Cases_2_28(const std::string &v)
{
    return {
        {"unset",
         v,
         nullptr,
         nullptr,
         0,
         {"IT " T "Could not find: libnccl-tuner.so"}},
        {"not_there",
         v,
         "nope",
         "no_net",
         0,
         {SET_2_28 "nope", "IT " T "Could not find: nope "
                           "libnccl-tuner-nope.so"}},
        {"none", v, "none", ALL, 0, {SET_2_28 "none"}},
        {"does_not_load",
         v,
         "%/broken.so",
         nullptr,
         0,
         {SET_2_28 "%/broken.so", "IT " T "%/broken.so: " BROKEN}},
        {"no_symbol",
         v,
         NO_SYMBOL,
         nullptr,
         0,
         {SET_2_28 NO_SYMBOL,
          "IT External tuner plugin " NO_SYMBOL " is unsupported"}},
        {"ok",
         v,
         ALL,
         nullptr,
         5,
         {SET_2_28 ALL, "IT " T "Using all (v5)",
          "IT Successfully loaded external tuner plugin " ALL,
          "IT " T "Closing tuner: 'all'"}},
        {"in_the_net_plugin",
         v,
         "nope",
         ALL,
         5,
         {SET_2_28 "nope",
          "IT " T "Could not find: nope "
          "libnccl-tuner-nope.so",
          "IT " T "Using all (v5)", "IT " T "Closing tuner: 'all'"}},
        {"not_in_the_net_plugin",
         v,
         nullptr,
         NO_SYMBOL,
         0,
         {"IT " T "Could not find: libnccl-tuner.so"}},
    };
}

inline std::vector<LoaderCase> Cases_2_30(const std::string &v)
{
    return {
        {"unset",
         v,
         nullptr,
         nullptr,
         0,
         {OS("libnccl-tuner.so"), "IT " T "Could not find: libnccl-tuner.so"}},
        {"not_there",
         v,
         "nope",
         nullptr,
         0,
         {SET_2_28 "nope", OS("nope"), OS("libnccl-tuner-nope.so"),
          "IT " T "Could not find: nope libnccl-tuner-nope.so"}},
        {"none", v, "none", nullptr, 0, {SET_2_28 "none"}},
        {"does_not_load",
         v,
         "%/broken.so",
         nullptr,
         0,
         {SET_2_28 "%/broken.so", "I ncclOsDlopen(%/broken.so) failed: " BROKEN,
          "IT " T "%/broken.so: " BROKEN}},
        {"no_symbol",
         v,
         NO_SYMBOL,
         nullptr,
         0,
         {SET_2_28 NO_SYMBOL, NO_DLSYM(NO_SYMBOL, "v5"),
          NO_DLSYM(NO_SYMBOL, "v4"), NO_DLSYM(NO_SYMBOL, "v3"),
          NO_DLSYM(NO_SYMBOL, "v2"),
          "IT External tuner plugin " NO_SYMBOL " is unsupported"}},
        {"v2",
         v,
         V2,
         nullptr,
         2,
         {SET_2_28 V2, NO_DLSYM(V2, "v5"), NO_DLSYM(V2, "v4"),
          NO_DLSYM(V2, "v3"), "IT " T "Using echo (v2)",
          "IT Successfully loaded external tuner plugin " V2,
          "DT " T "Closing tuner: 'echo'"}},
        {"ok",
         v,
         ALL,
         nullptr,
         6,
         {SET_2_28 ALL, "IT " T "Using all (v6)",
          "IT Successfully loaded external tuner plugin " ALL,
          "DT " T "Closing tuner: 'all'"}},
    };
}

inline std::vector<LoaderCase> AllCases()
{
    std::vector<LoaderCase> all;
    for (const auto &cases :
         {Cases_2_21(), Cases_2_22("2.22", 3), Cases_2_22("2.23", 3),
          Cases_2_22("2.24", 4), Cases_2_22("2.25", 4), Cases_2_26(),
          Cases_2_27(), Cases_2_28("2.28"), Cases_2_28("2.29"),
          Cases_2_30("2.30"), Cases_2_30("2.31dev")})
        for (LoaderCase c : cases) {
            c.name = "v" + c.version.substr(0, 1) + "_" + c.version.substr(2) +
                     "_" + c.name;
            all.push_back(c);
        }
    return all;
}

} // namespace mock_test

#endif // MOCK_LOADER_CASES_H
