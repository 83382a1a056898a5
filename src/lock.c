/* Locks of open files, and what the system knows of their holders; see rust/src/folder_lock.rs. */

#include <stddef.h>
#include <stdint.h>

enum { TAKEN, HELD, UNSUPPORTED };

#ifndef _WIN32
#include <errno.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/vfs.h>
#elif defined(__APPLE__)
#include <sys/mount.h>
#endif

/* Locks an open file without waiting. The system releases the lock when the file is closed, at the
   latest when the process ends, however it ends. */
int gmhclust_lock_file(intptr_t file) {
    while (flock((int) file, LOCK_EX | LOCK_NB)) {
        if (errno == EINTR) continue;
        return errno == EWOULDBLOCK ? HELD : UNSUPPORTED;
    }
    return TAKEN;
}

/* Releases the lock, also for processes that were forked while it was held. */
void gmhclust_unlock_file(intptr_t file) {
    flock((int) file, LOCK_UN);
}

/* Whether only this machine can have locked the file, 1 or 0; 0 also if that is not known. */
int gmhclust_is_local(intptr_t file) {
#ifdef __linux__
    struct statfs system;
    if (fstatfs((int) file, &system)) return 0;
    /* ext2 to ext4, XFS, Btrfs, ZFS, F2FS, tmpfs, overlayfs, by linux/magic.h. */
    const uint32_t local[] = {0xEF53,     0x58465342, 0x9123683E, 0x2FC12FC1,
                              0xF2F52010, 0x01021994, 0x794C7630};
    for (size_t i = 0; i < sizeof local / sizeof *local; i++) {
        if ((uint32_t) system.f_type == local[i]) return 1;
    }
    return 0;
#elif defined(__APPLE__)
    struct statfs system;
    return !fstatfs((int) file, &system) && (system.f_flags & MNT_LOCAL) != 0;
#else
    return 0;
#endif
}

/* Whether a process of this machine exists, 1 or 0. */
int gmhclust_process_exists(uint32_t process) {
    return kill((pid_t) process, 0) == 0 || errno == EPERM;
}

/* The name of this machine, at most `size` bytes with the final zero. Returns 0 for success. */
int gmhclust_host_name(char *name, size_t size) {
    const int failed = gethostname(name, size);
    name[size - 1] = 0;
    return failed;
}

#else
#include <windows.h>

int gmhclust_lock_file(intptr_t file) {
    /* A byte far behind the content, because other processes cannot read locked bytes. */
    OVERLAPPED place = {0};
    place.OffsetHigh = 1;
    const DWORD how = LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY;
    if (LockFileEx((HANDLE) file, how, 0, 1, 0, &place)) return TAKEN;
    const DWORD error = GetLastError();
    return error == ERROR_LOCK_VIOLATION || error == ERROR_IO_PENDING ? HELD : UNSUPPORTED;
}

void gmhclust_unlock_file(intptr_t file) {
    OVERLAPPED place = {0};
    place.OffsetHigh = 1;
    UnlockFileEx((HANDLE) file, 0, 1, 0, &place);
}

int gmhclust_is_local(intptr_t file) {
    return 0;
}

int gmhclust_process_exists(uint32_t process) {
    HANDLE handle = OpenProcess(SYNCHRONIZE, FALSE, process);
    if (!handle) return GetLastError() == ERROR_ACCESS_DENIED;
    const int runs = WaitForSingleObject(handle, 0) == WAIT_TIMEOUT;
    CloseHandle(handle);
    return runs;
}

int gmhclust_host_name(char *name, size_t size) {
    DWORD length = (DWORD) size;
    return !GetComputerNameA(name, &length);
}
#endif
