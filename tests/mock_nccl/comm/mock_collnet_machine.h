// A machine of two nodes that can have CollNet, which needs two more graphs; of
// GPUs of any compute capability, and CPUs of any vendor.
#pragma once

#include "support/mock_folder.h"

namespace mock_test
{

inline Machine CollNetMachine(const std::string &compute_capability = "90",
                              const std::string &cpu = "intel")
{
    Folder folder;
    folder.WriteAs("h100n2x8", "2.28.9");
    std::string csv = ReadFile(folder.Path() + "/machine.csv");
    csv.replace(csv.find(",90,") + 1, 2, compute_capability);
    csv.replace(csv.find(",intel,") + 1, 5, cpu);
    folder.Write("machine.csv", csv);
    std::string xml = ReadFile(folder.Path() + "/graphs.xml");
    for (const char *id : {"2", "4"}) {
        std::string graph = "<graph id=\"" + std::string(id) + "\"";
        const size_t at = xml.find(graph);
        graph += " pattern=\"3\" nchannels=\"8\" speedintra=\"48\" "
                 "speedinter=\"48\" typeintra=\"NVL\" typeinter=\"PIX\" "
                 "samechannels=\"0\">";
        for (int gpu = 0; gpu < 8; gpu++)
            graph += "<channel><net dev=\"0\"/><gpu dev=\"" +
                     std::to_string(gpu) + "\"/></channel>";
        xml.replace(at, xml.find('\n', at) - at, graph + "</graph>");
    }
    folder.Write("graphs.xml", xml);
    return LoadFolder(folder.Path());
}

} // namespace mock_test
