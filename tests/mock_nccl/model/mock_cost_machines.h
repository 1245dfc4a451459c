// The communicators of fixtures/cost_model/entries.csv.
#pragma once

struct CostGraph {
    int pattern;
    int n_channels;
    float bw_intra, bw_inter, latency_inter;
    int type_intra, type_inter; // as enum mock_path
    int same_channels;
    int n_heads;
    bool heads_chains;
};

struct CostMachine {
    const char *name;
    int compute_capability;
    const char *cpu;
    int n_nodes, per_node;
    int n_nvls_channels;
    bool collnet;
    CostGraph graphs[5]; // rings, trees, CollNet Chain, NVLS, CollNet Direct
};

// clang-format off
const CostMachine kCostMachines[] = {
    {"v100", 70, "intel", 1, 8, 0, false, {
        {4, 6, 20, 20, 0, 1, 4, 0, 6, false},
        {3, 6, 20, 20, 0, 1, 4, 0, 6, false}}},
    {"turing", 75, "amd", 1, 4, 0, false, {
        {4, 2, 6, 6, 0, 2, 4, 1, 2, false},
        {1, 2, 6, 6, 0, 2, 4, 1, 2, false}}},
    {"a100n4x1", 80, "amd", 4, 1, 0, false, {
        {4, 2, 24, 24, .6f, 1, 4, 1, 1, false},
        {3, 2, 24, 24, .6f, 1, 4, 1, 1, false}}},
    {"a100n2x16", 80, "intel", 2, 16, 0, true, {
        {4, 8, 24, 20, 0, 1, 5, 0, 8, false},
        {1, 8, 24, 20, 0, 1, 5, 0, 8, false},
        {3, 8, 24, 20, 0, 1, 5, 0, 8, false},
        {},
        {5, 8, 24, 20, 0, 1, 5, 0, 16, true}}},
    {"h100", 90, "intel", 1, 8, 16, false, {
        {4, 16, 20, 20, 0, 1, 4, 0, 8, false},
        {3, 16, 20, 20, 0, 1, 4, 0, 8, false},
        {},
        {5, 8, 40, 40, 0, 1, 4, 0, 8, false}}},
    {"h100x36", 90, "arm", 1, 36, 16, false, {
        {4, 16, 20, 20, 0, 1, 4, 0, 8, false},
        {1, 16, 20, 20, 0, 1, 4, 0, 8, false},
        {},
        {5, 16, 22, 22, 0, 1, 4, 0, 16, false}}},
    {"h100n2", 90, "mixed", 2, 8, 16, false, {
        {4, 8, 48, 48, .5f, 1, 7, 0, 8, false},
        {3, 8, 48, 48, .5f, 1, 7, 0, 8, false},
        {},
        {5, 8, 48, 48, .5f, 1, 7, 0, 8, false}}},
    {"h100n4", 90, "mixed", 4, 8, 16, true, {
        {4, 8, 48, 40, 0, 1, 5, 0, 8, false},
        {1, 8, 48, 40, 0, 1, 5, 0, 8, false},
        {1, 8, 48, 40, 0, 1, 5, 0, 8, false},
        {5, 8, 48, 40, 0, 1, 5, 0, 8, false},
        {5, 8, 48, 40, 0, 1, 5, 0, 8, true}}},
    {"h100n4-heads", 90, "intel", 4, 8, 16, true, {
        {4, 4, 48, 40, 0, 1, 5, 0, 4, false},
        {1, 4, 48, 40, 0, 1, 5, 0, 4, false},
        {1, 4, 48, 40, 0, 1, 5, 0, 4, true},
        {5, 4, 48, 40, 0, 1, 5, 0, 4, true},
        {5, 8, 48, 40, 0, 1, 5, 0, 8, true}}},
    {"b200", 100, "intel", 1, 8, 24, false, {
        {4, 16, 40, 40, 0, 1, 4, 0, 8, false},
        {3, 16, 40, 40, 0, 1, 4, 0, 8, false},
        {},
        {5, 8, 90, 90, 0, 1, 4, 0, 8, false}}},
    {"b200shared", 100, "intel", 1, 8, 24, false, { // ranks share GPUs
        {4, 16, 40, 40, 0, 0, 4, 0, 8, false},
        {3, 16, 40, 40, 0, 0, 4, 0, 8, false},
        {},
        {5, 8, 90, 90, 0, 1, 4, 0, 8, false}}},
    {"b200n2", 100, "amd", 2, 8, 32, false, {
        {4, 8, 90, 48, 0, 1, 5, 0, 8, false},
        {1, 8, 90, 48, 0, 1, 5, 0, 8, false},
        {},
        {5, 8, 90, 48, 0, 1, 5, 0, 8, false}}},
    {"gb200n2", 100, "arm", 2, 4, 32, false, {
        {4, 16, 48, 100, .5f, 1, 6, 0, 4, false},
        {3, 8, 48, 100, .5f, 1, 6, 0, 4, false},
        {},
        {5, 4, 90, 100, .5f, 1, 6, 0, 4, false}}},
    {"b300n4", 103, "intel", 4, 8, 32, false, {
        {4, 8, 90, 90, 0, 1, 5, 0, 8, false},
        {1, 8, 90, 90, 0, 1, 5, 0, 8, false},
        {},
        {5, 8, 90, 90, 0, 1, 5, 0, 8, false}}},
};
// clang-format on
