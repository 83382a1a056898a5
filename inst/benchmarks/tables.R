# The tables and figures that README, the help pages and the vignettes take from the results of the
# benchmarks. tools/figures.R, a part of tools/document, writes the tables between markers; the
# vignette "choosing" calls these functions. They need R alone, and the value of read_results().
#
# A table is a data frame with a `caption`, which says when and on what its columns were measured.

# ---- results ------------------------------------------------------------------------------------

# "DATE-2cores-linkage.csv": the date, the kind of machine and the script.
name_parts <- function(files) {
  pattern <- "^([0-9]{4}-[0-9]{2}-[0-9]{2})-([a-z0-9]+)-([a-z]+)[.]csv$"
  utils::strcapture(pattern, files, data.frame(day = "", kind = "", script = ""))
}

# All results of a folder: a list of tables by the names of their files.
read_results <- function(folder) {
  files <- list.files(folder, "^[0-9-]{10}-.*[.]csv$")
  tables <- lapply(file.path(folder, files), utils::read.csv, check.names = FALSE)
  structure(tables, names = files)
}

# The file of the newest results of a script on a kind of machine, or of any kind; NULL if none.
newest_file <- function(results, script, kind = NULL) {
  parts <- name_parts(names(results))
  fits <- parts$script == script & (is.null(kind) | parts$kind %in% kind)
  if (any(fits)) names(results)[fits][which.max(as.Date(parts$day[fits]))]
}

newest <- function(results, script, kind = NULL) {
  file <- newest_file(results, script, kind)
  if (!is.null(file)) results[[file]]
}

# The kinds of machines with one GPU, the one measured last first; of a day, that with more rows.
gpu_kinds <- function(results) {
  parts <- name_parts(names(results))
  of_gpu <- grepl("^[a-z]+[0-9]+$", parts$kind) & parts$script == "gmhclust"
  rows <- vapply(results, nrow, 0L)
  unique(parts$kind[of_gpu][order(parts$day[of_gpu], rows[of_gpu], decreasing = TRUE)])
}

# ---- words --------------------------------------------------------------------------------------

two_digits <- function(x) {
  format(signif(x, 2), scientific = FALSE, trim = TRUE, drop0trailing = TRUE)
}

# The same for each of x; empty for NA.
seconds_in_words <- function(x) ifelse(is.na(x), "", vapply(x, two_digits, ""))

# "mahal, full" of gmhclust.R, and "gdist, manhattan" of the others, as a reader sees them.
call_in_words <- function(call) {
  call <- sub("^((euclidM|m)ahal), (centroid|full)$", "`gmhclust`, `\\1`, \\3 distance", call)
  sub("^(g[a-z]+)(,|$)", "`\\1`\\2", call)
}

and <- function(words) {
  last <- length(words)
  if (last < 2) return(words)
  paste(paste(words[-last], collapse = ", "), "and", words[last])
}

# "Intel(R) Xeon(R) Processor, gmhclust 0.99.0, 2026-11-25" of rows of results: each once.
measured_on <- function(rows) {
  versions <- split(rows$date, paste("gmhclust", rows$version))
  dated <- paste0(names(versions), ", ", vapply(versions, function(dates) {
    and(sort(unique(dates)))
  }, ""))
  paste(c(gsub("\\((R|TM)\\)", "", and(unique(rows$machine[!is.na(rows$machine)]))),
          paste(dated, collapse = "; ")), collapse = ", ")
}

# ---- speed --------------------------------------------------------------------------------------

# A line of a table of speed: a call of a row of a script, and the calls of other packages `beside`
# it, of the same row.
line <- function(script, row, call, beside = NULL) {
  list(script = script, row = row, call = call, beside = beside)
}

ways <- c("euclidMahal, centroid", "mahal, centroid", "mahal, full")
gmhclust_lines <- c(
  lapply(ways, line, script = "gmhclust", row = "cells20k"),
  list(line("gmhclust", "apriori20k", "mahal, full")),
  lapply(ways, line, script = "gmhclust", row = "cells44k"),
  lapply(ways[2:3], line, script = "gmhclust", row = "cells167k"),
  lapply(ways[2:3], line, script = "gmhclust", row = "cells841k"),
  lapply(ways[1:2], line, script = "gmhclust", row = "cells265k"),
  lapply(ways[2:3], line, script = "gmhclust", row = "cells1m"),
  lapply(ways[2:3], line, script = "gmhclust", row = "groups2m"),
  list(
    line("gmhclust", "groups20m", "mahal, centroid"),
    line("gmhclust", "cells20m", "mahal, centroid")
  )
)

other_lines <- list(
  line("distances", "main", "gdist, manhattan", "stats::dist, manhattan"),
  line("distances", "main", "gdist, pearson", "stats::cor, pearson"),
  line("linkage", "matrix", "ghclust, average"),
  line("linkage", "dist", "ghclust, average",
       c("stats::hclust, average", "fastcluster::hclust, average")),
  line("linkage", "dist", "ghclust, ward.D2", "fastcluster::hclust, ward.D2"),
  line("linkage", "matrix100k", "ghclust, average"),
  line("linkage", "genes20k", "ghclust, average"),
  line("linkage", "genes1m", "ghclust, average"),
  line("linkage", "cells20k", "ghclust, single", "fastcluster::hclust.vector, single"),
  line("linkage", "cells20k", "ghclust, centroid", "fastcluster::hclust.vector, centroid"),
  line("linkage", "cells20k", "ghclust, ward.D2"),
  line("linkage", "cells1m", "ghclust, single"),
  line("linkage", "cells1m", "ghclust, ward.D2"),
  line("neighbours", "cells20k", "gknn, euclidean, k = 20",
       c("FNN::get.knn, k = 20", "BiocNeighbors::findKNN, k = 20")),
  line("neighbours", "24k", "gknn, pearson, k = 20"),
  line("neighbours", "384k", "gknn, pearson, k = 20"),
  line("kmeans", "cells20k", "gkmeans, 1,000 centers", "stats::kmeans, Lloyd"),
  line("kmeans", "cells1m", "gkmeans, 1,000 centers"),
  line("kmeans", "cells1m", "gkmeans, 10 centers")
)

few_lines <- list(
  line("gmhclust", "cells20k", "mahal, full"),
  line("gmhclust", "cells1m", "mahal, full"),
  line("linkage", "cells20k", "ghclust, centroid", "fastcluster::hclust.vector, centroid"),
  line("neighbours", "cells20k", "gknn, euclidean, k = 20",
       c("FNN::get.knn, k = 20", "BiocNeighbors::findKNN, k = 20")),
  line("kmeans", "cells20k", "gkmeans, 1,000 centers", "stats::kmeans, Lloyd")
)

# The rows of the newest results on a kind of machine that a line is about; none without results.
rows_of <- function(results, line, kind, calls = line$call) {
  columns <- c("row", "data", "call", "seconds", "date", "machine", "version")
  table <- newest(results, line$script, kind)
  if (is.null(table)) table <- results[[1]][0, ]
  table[table$row == line$row & table$call %in% calls & !is.na(table$seconds), columns]
}

# Seconds of lines on 2 cores, 16 cores and with a GPU, and of other packages on the first kind of
# machine. A line is there once for each data that its row had.
speed_table <- function(results, lines, kinds = c("2cores", "16cores", gpu_kinds(results)[1])) {
  found <- lapply(lines, function(line) lapply(kinds, function(kind) rows_of(results, line, kind)))
  shown <- Map(function(line, of_kinds) {
    data <- unique(unlist(lapply(of_kinds, `[[`, "data")))
    seconds <- lapply(of_kinds, function(rows) {
      seconds_in_words(rows$seconds[match(data, rows$data)])
    })
    others <- rows_of(results, line, kinds[1], line$beside)
    others <- vapply(data, function(one) beside_in_words(others[others$data == one, ]), "")
    table <- list(data = data, call = rep(call_in_words(line$call), length(data)))
    data.frame(c(table, structure(seconds, names = kinds_in_words(kinds)),
                 list("others, 1 core" = others)), check.names = FALSE, row.names = NULL)
  }, lines, found)
  table <- do.call(rbind, shown)
  used <- lapply(seq_along(kinds), function(i) do.call(rbind, lapply(found, `[[`, i)))
  is_there <- vapply(used, nrow, 0L) > 0
  notes <- paste0(kinds_in_words(kinds)[is_there], ": ", vapply(used[is_there], measured_on, ""))
  table <- table[setdiff(names(table), kinds_in_words(kinds)[!is_there])]
  if (all(table[["others, 1 core"]] == "")) table[["others, 1 core"]] <- NULL
  structure(table, caption = paste0("Seconds, medians. ", paste(notes, collapse = ". "), "."))
}

kinds_in_words <- function(kinds) {
  is_cpu <- grepl("cores$", kinds)
  ifelse(is_cpu, sub("cores", " cores", kinds), sprintf("GPU (%s)", toupper(kinds)))
}

beside_in_words <- function(rows) {
  if (length(rows$call) == 0) return("")
  and(paste0(sub(",.*", "", rows$call), ": ", seconds_in_words(rows$seconds)))
}

# The rows measured with a kind of GPU, but comparisons of sizes with the CPU, and of metrics.
gpu_table <- function(results, kind = gpu_kinds(results)[1]) {
  scripts <- c("gmhclust", "distances", "linkage", "neighbours", "kmeans")
  columns <- c("data", "call", "cold", "seconds", "date", "machine", "version", "threads")
  tables <- lapply(scripts, function(script) {
    table <- newest(results, script, kind)
    table[!table$row %in% c("crossover", "metrics") & !is.na(table$seconds), columns]
  })
  rows <- do.call(rbind, tables)
  shown <- data.frame(
    data = rows$data, call = call_in_words(rows$call), seconds = seconds_in_words(rows$seconds)
  )
  later <- two_digits(range(rows$cold - rows$seconds, na.rm = TRUE))
  structure(shown, caption = sprintf(
    "Seconds, medians, with %s and %s threads: %s. The first call of a session took %s s longer.",
    toupper(kind), paste(sort(unique(rows$threads)), collapse = " or "), measured_on(rows),
    paste(unique(later), collapse = " to ")
  ))
}

# The measures of peers.py in short, where %s stands for the value.
measures <- c(
  "share of right neighbours" = "%s%% of neighbours right",
  "sum of squares / gmhclust's" = "sum of squares x %s",
  "largest relative difference" = "heights within %s",
  "largest relative error" = "distances within %s",
  "adjusted Rand index" = "adjusted Rand index %s"
)

# "cuhc: 1.3 (heights within 3e-07)" of rows of peers.py.
peers_in_words <- function(rows) {
  rows <- rows[!is.na(rows$seconds), ]
  is_close <- grepl("^largest", rows$measure)
  is_share <- grepl("^share", rows$measure)
  value <- ifelse(is_close, signif(rows$value, 1), signif(rows$value, 5))
  value <- ifelse(is_share, round(100 * rows$value, 1), value)
  measured <- mapply(sprintf, measures[rows$measure], vapply(value, format, ""))
  tf32 <- ifelse(grepl("TF32", rows$call), " with TF32", "")
  package <- paste0(sub(",.*", "", rows$call), tf32)
  paste0(package, ": ", seconds_in_words(rows$seconds), " (", measured, ")", collapse = "; ")
}

# gmhclust beside other packages for GPUs; each row is from one run of peers.py. The last run may
# have been stopped before it came to the other packages of its last row.
peers_table <- function(results) {
  table <- newest(results, "peers")
  is_ours <- grepl("^gmhclust", table$package)
  table <- table[table$row %in% table$row[!is_ours & !is.na(table$seconds)], ]
  ours <- table[grepl("^gmhclust", table$package), ]
  others <- vapply(ours$row, function(row) {
    peers_in_words(table[table$row == row & !grepl("^gmhclust", table$package), ])
  }, "")
  shown <- data.frame(
    data = ours$data, call = call_in_words(ours$call), gmhclust = seconds_in_words(ours$seconds),
    "other packages" = others, check.names = FALSE, row.names = NULL
  )
  table <- table[!is.na(table$seconds), ]
  later <- vapply(split(table$cold - table$seconds, sub(" .*", "", table$package)), function(more) {
    paste(two_digits(range(pmax(more, 0))), collapse = " to ")
  }, "")
  structure(shown, caption = sprintf(
    "Seconds, medians, with %s and %s threads: %s; %s. First calls, not shown, took %s s longer.",
    ours$gpu[1], paste(unique(ours$threads), collapse = " or "), measured_on(ours),
    and(setdiff(table$package, ours$package)),
    paste0(names(later), " ", later, collapse = ", ")
  ))
}

# How time grows with the number of cells.
growth_table <- function(results) {
  rows <- newest(results, "gmhclust", "2cores")
  rows <- rows[rows$row == "growth", ]
  n <- as.numeric(gsub(",| x.*", "", rows$data))
  calls <- unique(rows$call)
  wide <- vapply(calls, function(call) {
    seconds_in_words(rows$seconds[rows$call == call][match(unique(n), n[rows$call == call])])
  }, character(length(unique(n))))
  powers <- vapply(calls, function(call) {
    slope <- stats::coef(stats::lm(log(rows$seconds) ~ log(n), subset = rows$call == call))[[2]]
    sprintf("n^%.1f (%s)", slope, sub("^mahal, ", "", call))
  }, "")
  shown <- data.frame(data = unique(rows$data), wide, row.names = NULL)
  names(shown)[-1] <- call_in_words(calls)
  structure(shown, caption = sprintf("Seconds, medians, 2 cores: %s. Time grows as %s.",
                                     measured_on(rows), and(powers)))
}

# ---- populations --------------------------------------------------------------------------------

labelled <- c(
  "GvHD" = "flowcap-gvhd", "mass cytometry" = "multicenter", "DLBCL" = "dlbcl",
  "FlowSOM's `68983.fcs`" = "flowsom-68983", "HIPC" = "hipc"
)
mahalanobis_trees <- c("full", "full, apriori", "centroid", "centroid, apriori")

# A score of methods on a set: "0.916 to 0.922", the range over the methods.
score_of <- function(truth, methods, set, what = "f", digits = 3) {
  values <- truth[[what]][truth$row == set & truth$call %in% methods]
  if (length(values) == 0) return("")
  paste(unique(format(round(range(values), digits), nsmall = digits)), collapse = " to ")
}

populations_table <- function(results) {
  truth <- newest(results, "populations")
  methods <- list(
    gmhclust = mahalanobis_trees, HDBSCAN = "HDBSCAN", "Ward, given k" = "Ward, k",
    "k-means, given k" = "k-means, k", Leiden = "Leiden"
  )
  sets <- labelled[labelled %in% truth$row]
  samples <- truth$samples[match(sets, truth$row)]
  scores <- vapply(methods, function(names) {
    vapply(sets, function(set) score_of(truth, names, set), "")
  }, character(length(sets)))
  cells <- paste0(names(sets), ifelse(samples > 1, paste0(", ", samples, " samples"), ""))
  structure(
    data.frame(cells, scores, check.names = FALSE, row.names = NULL),
    caption = sprintf(
      "Means over the samples; HDBSCAN clustered 5,000 cells of each sample. Measured on %s.",
      measured_on(truth)
    )
  )
}

preparation_table <- function(results) {
  rows <- newest(results, "preparation")
  shown <- function(prefix) {
    value <- function(name) sprintf("%.3f", rows[[paste0(prefix, name)]])
    ifelse(rows$repeats > 1,
           sprintf("%s (%s to %s)", value("median"), value("lowest"), value("highest")),
           value("median"))
  }
  structure(
    data.frame("values" = rows$call, "gated events" = shown(""), "all events" = shown("all."),
               check.names = FALSE),
    caption = sprintf("Adjusted Rand index, the median of %d seeds (lowest to highest); %s.",
                      max(rows$repeats), measured_on(rows))
  )
}

# The functions of the rows of workers.R.
worker_calls <- c(
  kmeans = "`gkmeans`, 1,000 given centers, 10 iterations",
  drawn = "`gkmeans`, 1,000 drawn centers",
  knn = "`gknn`, k = 20", tree = "`gmhclust`, 100 apriori clusters", spanning = "`gmst`"
)

workers_table <- function(results) {
  rows <- newest(results, "workers")
  of_call <- function(call) seconds_in_words(rows$seconds[rows$call == call])
  alone <- rows[rows$call == rows$call[1], ]
  calls <- unique(rows$call)
  shown <- c(list(data = alone$data, call = worker_calls[alone$row]),
             structure(lapply(calls, of_call), names = calls))
  structure(
    data.frame(shown, check.names = FALSE, row.names = NULL),
    caption = paste0("Seconds, medians, each process with one thread: ", measured_on(rows), ".")
  )
}

# ---- documents ----------------------------------------------------------------------------------

# The tables of documents, by the name in their markers: <!-- table: NAME -->.
tables <- list(
  few = function(results) speed_table(results, few_lines),
  gmhclust = function(results) speed_table(results, gmhclust_lines),
  others = function(results) speed_table(results, other_lines),
  growth = growth_table,
  peers = peers_table,
  populations = populations_table,
  preparation = preparation_table,
  workers = workers_table
)

# Lines of Markdown; numbers and times stand to the right.
as_markdown <- function(table) {
  rows <- do.call(paste, c(table, sep = " | "))
  right <- vapply(table, function(column) all(grepl("^[0-9.]*$", column)), NA)
  c(
    paste("|", paste(names(table), collapse = " | "), "|"),
    paste0("|", paste0(ifelse(right, "---:", "---"), collapse = "|"), "|"),
    paste("|", rows, "|"), "", attr(table, "caption")
  )
}

# Sentences with figures of results, by the file in which each must stand, whatever its breaks of
# lines.
facts <- function(results) {
  threshold <- newest(results, "threshold")
  trees <- newest(results, "trees")
  prepared <- newest(results, "preparation")
  times_as_fast <- function(row) {
    of_row <- trees[trees$row == row & grepl("k = 50", trees$call), ]
    seconds <- structure(of_row$seconds, names = sub("[,:].*", "", of_row$call))
    two_digits(signif(seconds[["stats"]] / seconds[["gcutree"]], 1))
  }
  # The ARI for data, or another score, of trees of full distances at thresholds.
  at <- function(data, members, what = "ari") {
    rows <- threshold[grepl(data, threshold$data) & threshold$distance == "full", ]
    rows[[what]][rows$members %in% members]
  }
  in_words <- function(values) paste(unique(sprintf("%.2f", range(values))), collapse = " to ")
  smallest <- vapply(c(150, 300), function(members) {
    in_words(at("^5,000 x 30, smallest 50$", members, "smallest"))
  }, "")
  small <- threshold[threshold$row == "small", ]
  small <- vapply(c("default", "5p", "50% of n"), function(name) {
    sprintf("%.2f", mean(small$loss[small$threshold == name]))
  }, "")
  ari <- function(call) sprintf("%.3f", prepared$median[prepared$call == call])
  asinh_150 <- "compensated, asinh(x / 150)"
  fact <- function(file, text, ...) list(file = file, text = do.call(sprintf, list(text, ...)))
  list(
    fact("R/gcutree.R", "about %s times as fast for 20,000 observations, and %s times for 200,000",
         times_as_fast("20k"), times_as_fast("200k")),
    fact("R/gmhclust.R", "| %s |", paste(losses(threshold), collapse = " | ")),
    fact("R/gmhclust.R", paste("the F1 score of that population was %s at 5 p = 150,",
                               "and %s at 10 p = 300"), smallest[1], smallest[2]),
    fact("R/gmhclust.R", paste("of 100 to 500 observations by %s with the default,",
                               "%s at 5 p and %s at n / 2"),
         small[1], small[2], small[3]),
    fact("R/gmhclust.R", paste("had an ARI of %s at thresholds from 4 to 50, of %s at 100,",
                               "and of %s at n / 2"),
         in_words(at("^ellipses, gap 4$", 4:50)), in_words(at("^ellipses, gap 4$", 100)),
         in_words(at("^ellipses, gap 4$", 1000))),
    fact("R/gmhclust.R", paste("%s with 14 markers from 30 to n / 2, and %s with 6 markers from",
                               "2 p to n / 2"),
         in_words(at("lymphocytes, 14", 30:10000)), in_words(at("lymphocytes, 6", 12:10000))),
    fact("vignettes/gmhclust.Rmd", "from 30 on find the gates of our lymphocytes (ARI %s)",
         in_words(at("lymphocytes, 14", 30:10000))),
    fact("vignettes/gmhclust.Rmd", "its F1 score was %s at a threshold of 150 and %s at 300",
         smallest[1], smallest[2]),
    fact("vignettes/gmhclust.Rmd", "an ARI of %s, and of %s for Mahalanobis-average linkage",
         ari(paste0(asinh_150, ", average linkage")), ari(asinh_150))
  )
}

# Mean losses of thresholds over data of at least 2,000 observations, in the order of the help page.
losses <- function(threshold) {
  large <- threshold[threshold$n >= 2000, ]
  shown <- c("p + 1", "2p", "3p", "default", "10p", "20p", "50p", "10% of n", "50% of n")
  vapply(shown, function(name) sprintf("%.2f", mean(large$loss[large$threshold == name])), "")
}
