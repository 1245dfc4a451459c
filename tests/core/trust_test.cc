// Which files a job uses, by type, permissions, owner and folder.  No test of
// files would need no root: here users are numbers.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>

extern "C" {
#include "core/trust.h"
}

namespace
{

constexpr uint32_t kRoot = 0, kUser = 1000, kOther = 1001;
constexpr uint32_t kFile = S_IFREG | 0644, kLink = S_IFLNK | 0777;
// Folders by who may write them.
constexpr uint32_t kClosed = S_IFDIR | 0755, kTeams = S_IFDIR | 0775,
                   kTmp = S_IFDIR | 01777, kOpen = S_IFDIR | 0777;

constexpr stp_use kNamed = STP_USE_NAMED, kFound = STP_USE_FOUND,
                  kOwn = STP_USE_OWN, kPrivate = STP_USE_PRIVATE;

struct TrustCase {
    const char *name;
    stp_file_facts file;
    uint32_t folder; // its mode; its owner does not count
    stp_use use;
    uint32_t euid;
    stp_trust trust;
};

// clang-format off
const TrustCase kCases[] = {
    // A policy that the user named.
    {"a_users_policy",       {kFile, kUser},  kClosed, kNamed, kUser, STP_TRUSTED},
    {"roots_policy",         {kFile, kRoot},  kClosed, kNamed, kUser, STP_TRUSTED},
    {"an_admins_policy",     {kFile, kOther}, kClosed, kNamed, kUser, STP_TRUSTED},
    {"a_teams_policy",       {S_IFREG | 0664, kOther}, kTeams, kNamed, kUser, STP_TRUSTED},
    {"mounted_for_root",     {kFile, kUser},  kClosed, kNamed, kRoot, STP_TRUSTED},
    {"named_in_tmp",         {kFile, kOther}, kTmp,    kNamed, kUser, STP_TRUSTED},
    {"in_an_open_folder",    {kFile, kOther}, kOpen,   kNamed, kUser, STP_TRUST_STRANGERS},
    {"root_asks_the_same",   {kFile, kOther}, kOpen,   kNamed, kRoot, STP_TRUST_STRANGERS},
    {"own_in_an_open_folder", {kFile, kUser}, kOpen,   kNamed, kUser, STP_TRUSTED},
    {"roots_in_an_open_one", {kFile, kRoot},  kOpen,   kNamed, kUser, STP_TRUSTED},
    {"all_write_my_policy",  {S_IFREG | 0666, kUser}, kClosed, kNamed, kUser, STP_TRUST_ALL_WRITE},
    {"all_write_roots",      {S_IFREG | 0646, kRoot}, kClosed, kNamed, kUser, STP_TRUST_ALL_WRITE},
    {"all_write_another's",  {S_IFREG | 0602, kOther}, kClosed, kNamed, kUser, STP_TRUST_ALL_WRITE},
    // A file that is written, or found where the job runs.
    {"a_users_journal",      {kFile, kUser},  kTmp,    kFound, kUser, STP_TRUSTED},
    {"roots_journal",        {kFile, kRoot},  kTmp,    kFound, kUser, STP_TRUSTED},
    {"squashed_by_nfs",      {kFile, 65534},  kClosed, kFound, kRoot, STP_TRUSTED},
    {"laid_in_tmp",          {kFile, kOther}, kTmp,    kFound, kUser, STP_TRUST_STRANGERS},
    {"laid_for_root",        {kFile, kOther}, kTmp,    kFound, kRoot, STP_TRUST_STRANGERS},
    {"laid_in_an_open_folder", {kFile, kOther}, kOpen, kFound, kUser, STP_TRUST_STRANGERS},
    {"all_write_a_journal",  {S_IFREG | 0666, kUser}, kClosed, kFound, kUser, STP_TRUST_ALL_WRITE},
    // Links, whose own permissions say nothing.
    {"a_link_at_home",       {kLink, kUser},  kClosed, kNamed, kUser, STP_TRUSTED},
    {"an_admins_link",       {kLink, kOther}, kTeams,  kNamed, kUser, STP_TRUSTED},
    {"my_link_in_tmp",       {kLink, kUser},  kTmp,    kNamed, kUser, STP_TRUSTED},
    {"roots_link_in_tmp",    {kLink, kRoot},  kTmp,    kFound, kUser, STP_TRUSTED},
    {"a_strangers_link_in_tmp", {kLink, kOther}, kTmp, kNamed, kUser, STP_TRUST_STRANGERS_LINK},
    {"a_link_laid_for_root", {kLink, kOther}, kTmp,    kFound, kRoot, STP_TRUST_STRANGERS_LINK},
    {"a_link_that_all_may_replace", {kLink, kUser}, kOpen, kNamed, kUser, STP_TRUST_STRANGERS_LINK},
    // Rewards, and shared memory.
    {"own_rewards",          {kFile, kUser},  kTmp, kOwn, kUser, STP_TRUSTED},
    {"roots_rewards",        {kFile, kRoot},  kTmp, kOwn, kUser, STP_TRUST_NOT_OWN},
    {"anothers_rewards",     {kFile, kOther}, kClosed, kOwn, kUser, STP_TRUST_NOT_OWN},
    {"a_link_to_rewards",    {kLink, kUser},  kClosed, kOwn, kUser, STP_TRUST_IS_LINK},
    {"all_write_rewards",    {S_IFREG | 0606, kUser}, kTmp, kOwn, kUser, STP_TRUST_ALL_WRITE},
    {"a_segment",            {S_IFREG | 0600, kUser}, kTmp, kPrivate, kUser, STP_TRUSTED},
    {"a_segment_all_read",   {S_IFREG | 0604, kUser}, kTmp, kPrivate, kUser, STP_TRUST_NOT_PRIVATE},
    {"a_segment_a_group_reads", {S_IFREG | 0640, kUser}, kTmp, kPrivate, kUser, STP_TRUST_NOT_PRIVATE},
    {"a_segment_all_write",  {S_IFREG | 0666, kUser}, kTmp, kPrivate, kUser, STP_TRUST_ALL_WRITE},
    {"roots_segment",        {S_IFREG | 0600, kRoot}, kTmp, kPrivate, kUser, STP_TRUST_NOT_OWN},
    {"a_strangers_segment",  {S_IFREG | 0600, kOther}, kTmp, kPrivate, kRoot, STP_TRUST_NOT_OWN},
    {"a_link_for_a_segment", {kLink, kUser},  kTmp, kPrivate, kUser, STP_TRUST_IS_LINK},
    // No files.
    {"a_fifo",               {S_IFIFO | 0600, kUser}, kClosed, kNamed, kUser, STP_TRUST_IRREGULAR},
    {"a_socket",             {S_IFSOCK | 0600, kUser}, kClosed, kFound, kUser, STP_TRUST_IRREGULAR},
    {"a_disk",               {S_IFBLK | 0660, kRoot}, kClosed, kNamed, kRoot, STP_TRUST_IRREGULAR},
    {"a_terminal",           {S_IFCHR | 0620, kUser}, kClosed, kFound, kUser, STP_TRUST_IRREGULAR},
    {"a_folder",             {kClosed, kUser}, kClosed, kNamed, kUser, STP_TRUST_IS_FOLDER},
};
// clang-format on

TEST(Trust, DependsOnTypeOwnerAndFolder)
{
    for (const TrustCase &c : kCases) {
        const stp_file_facts folder = {c.folder, kRoot};
        EXPECT_EQ(c.trust, stp_trust_file(&c.file, &folder, c.use, c.euid))
            << c.name;
    }
}

// Who gives no folder is asked for it, and only where it decides.
TEST(Trust, AsksForAFolderOnlyWhereItDecides)
{
    for (const TrustCase &c : kCases) {
        const stp_file_facts tmp = {kTmp, kRoot}, open = {kOpen, kRoot},
                             closed = {kClosed, kRoot};
        const stp_trust in_closed =
            stp_trust_file(&c.file, &closed, c.use, c.euid);
        const bool is_one =
            in_closed == stp_trust_file(&c.file, &tmp, c.use, c.euid) &&
            in_closed == stp_trust_file(&c.file, &open, c.use, c.euid);

        EXPECT_EQ(is_one ? in_closed : STP_TRUST_ASK_FOLDER,
                  stp_trust_file(&c.file, nullptr, c.use, c.euid))
            << c.name;
    }
}

TEST(Trust, SaysWhyAndWhatWasExpected)
{
    for (int i = STP_TRUST_IRREGULAR; i < STP_N_TRUSTS; i++)
        EXPECT_NE(nullptr, strstr(stp_trust_text(static_cast<stp_trust>(i)),
                                  ", expected a "))
            << i;
}

} // namespace
