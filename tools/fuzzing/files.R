# Damaged and forged folders of neighbours.

# Case number `case`: damages a copy of the folder and uses it. As run_case().
run_damaged_folder <- function(seed, case, env) {
  set.seed((seed * 1000003 + case) %% 2147483647)
  folder <- file.path(env$scratch, "damaged")
  unlink(folder, recursive = TRUE)
  dir.create(folder)
  file.copy(list.files(env$folder, full.names = TRUE), folder)
  steps <- vapply(seq_len(sample.int(3, 1)), function(i) damage(folder, env), "")
  text <- paste0("gknn in a folder with: ", paste(steps, collapse = ", "))
  writeLines(text, file.path(env$scratch, "call"))
  is_forged <- any(startsWith(steps, "forged"))
  local <- list2env(list(folder = folder), parent = env)
  first <- sample.int(31, 1) - 1
  calls <- list(
    quote(read_gknn(output = folder)),
    bquote(get_rows(x = with_part(files, "folder", folder), rows = .(first))),
    quote(as_edges(nn = read_gknn(folder))), quote(resumed(x = x))
  )
  # Resuming computes damaged blocks again; all values must then be right.
  local$resumed <- function(x) {
    found <- as.list(gmhclust::gknn(x, 3, output = folder))
    if (!is_forged && !identical(found$index, env$nn$index)) stop("the resumed result is wrong")
    found
  }
  environment(local$resumed) <- local
  local$is_forged <- is_forged
  for (call in calls) {
    wrong <- judge(call, local)
    if (!is.null(wrong)) return(c(list(call = paste(deparse(call), "after", text)), wrong))
  }
  NULL
}

damage <- function(folder, env) {
  name <- pick(list.files(folder))
  file <- file.path(folder, name)
  other <- file.path(folder, pick(list.files(folder)))
  is_file <- file.exists(file) && !dir.exists(file)
  bytes <- if (is_file) readBin(file, "raw", file.size(file)) else raw(0)
  n <- length(bytes)
  at <- if (n > 0) sample.int(n, 1) else 0L
  step <- pick(c(
    "truncated", "flipped", "random byte", "extended", "emptied", "deleted", "swapped", "reversed",
    "folder", "link", "dangling", "zeros", "renamed", "copied", "forged manifest", "forged block",
    "written by another"
  ))
  unlink_any <- function(path) unlink(path, recursive = TRUE)
  write <- function(bytes, to = file) {
    unlink_any(to)
    writeBin(bytes, to)
  }
  switch(step,
    truncated = write(bytes[seq_len(max(at - 1, 0))]),
    flipped = if (n > 0) write(replace(bytes, at, xor(bytes[at], as.raw(2^sample(0:7, 1))))),
    "random byte" = if (n > 0) write(replace(bytes, at, as.raw(sample(0:255, 1)))),
    extended = write(c(bytes, as.raw(sample(0:255, 9)))),
    emptied = write(raw(0)),
    deleted = unlink_any(file),
    swapped = {
      file.rename(file, paste0(file, "~"))
      if (file.exists(other)) file.rename(other, file)
      file.rename(paste0(file, "~"), other)
    },
    # The other order of bytes, after the header.
    reversed = if (n > 128) write(c(bytes[1:128], rev(bytes[-(1:128)]))),
    folder = {
      unlink_any(file)
      dir.create(file)
    },
    link = {
      unlink_any(file)
      file.symlink("/dev/zero", file)
    },
    dangling = {
      unlink_any(file)
      file.symlink(file, file)
    },
    zeros = write(raw(n)),
    renamed = file.rename(file, file.path(folder, paste0(name, pick(c("~", ".bak", "x"))))),
    # Never from a link, which may lead to /dev/zero.
    copied = if (other != file && !any(nzchar(Sys.readlink(c(file, other))))) {
      file.copy(file, other, overwrite = TRUE)
    },
    "forged manifest" = forge_manifest(file.path(folder, "manifest.json")),
    "forged block" = forge_block(folder),
    "written by another" = write(charToRaw("x"), file.path(folder, pick(c(
      "manifest.rds", "writing-1-1-manifest.json", "rows-0000000000-0000000000.sha256",
      "rows-9999999999-9999999999.sha256", "rows-+000000001-0000000008.sha256", "\u00fc"
    ))))
  )
  paste(step, name)
}

# Replaces a number or a word in the manifest, and writes a matching checksum.
forge_manifest <- function(file) {
  nothing <- function(condition) ""
  text <- tryCatch(
    readChar(file, 4096, useBytes = TRUE), error = nothing, warning = nothing
  )
  if (length(text) == 0 || !grepl("[^,\n{]: [^,\n{]", text, useBytes = TRUE)) {
    return(invisible())
  }
  summed <- strsplit(text, ",\n  \"sha256\"", fixed = TRUE, useBytes = TRUE)[[1]][1]
  # A manifest that is damaged already may be no valid text.
  if (!validUTF8(summed)) return(invisible())
  places <- gregexpr("(?<=: )[^,\n{]+", summed, perl = TRUE)[[1]]
  at <- sample.int(length(places), 1)
  new <- pick(c(
    "0", "-1", "1", "2", "7", "29", "2147483647", "2147483648", "4294967295",
    "18446744073709551616", "1e3", "1e999", "1.5", "null", "true", "\"\"", "[]", "{}",
    "\"\\u0000\"", "\"\\ud800\"", "\"euclidean\"", "NaN", strrep("[", 2000), strrep("9", 500),
    "\"0123456789abcdef\""
  ))
  end <- places[at] + attr(places, "match.length")[at]
  summed <- paste0(substr(summed, 1, places[at] - 1), new, substring(summed, end))
  text <- paste0(summed, ",\n  \"sha256\": \"", cli::hash_sha256(summed), "\"\n}\n")
  writeBin(charToRaw(text), file)
}

# Changes values of a block, and writes matching checksums.
forge_block <- function(folder) {
  sums <- list.files(folder, "^rows-.*sha256$", full.names = TRUE)
  sums <- sums[!dir.exists(sums) & !nzchar(Sys.readlink(sums))]
  if (length(sums) == 0) return(invisible())
  file <- pick(sums)
  lines <- strsplit(readLines(file, warn = FALSE), "  ", fixed = TRUE)
  for (i in seq_along(lines)) {
    path <- file.path(folder, lines[[i]][2])
    if (is.na(path) || !file.exists(path) || dir.exists(path) || nzchar(Sys.readlink(path))) next
    bytes <- readBin(path, "raw", file.size(path))
    if (grepl("npy$", path) && length(bytes) > 0 && runif(1) < 0.7) {
      at <- sample.int(length(bytes), min(length(bytes), 4))
      bytes[at] <- as.raw(pick(c(0, 255, 127, 240, sample(0:255, 1))))
      header <- seq_len(min(128, length(bytes)))
      if (runif(1) < 0.3) bytes[-header] <- rev(bytes[-header])
      writeBin(bytes, path)
    }
    lines[[i]][1] <- cli::hash_raw_sha256(bytes)
  }
  writeLines(vapply(lines, paste, "", collapse = "  "), file)
}
