# The file that report() writes: the template, style and modules of inst/report with the content.

# Modules of the page, in an order in which each uses only those before it.
page_modules <- c("data.js", "state.js", "rcode.js", "marks.js", "tree.js", "details.js",
                  "scatter.js", "bands.js", "page.js")

# Writes a page. The file gets its name when it is complete.
write_page <- function(content, file, call) {
  text <- page_text(content)
  # A file that is replaced keeps its mode, and a link its place.
  if (isTRUE(nzchar(Sys.readlink(file)))) file <- normalizePath(file, mustWork = FALSE)
  temporary <- tempfile(".report-", dirname(file))
  on.exit(unlink(temporary))
  is_written <- !dir.exists(file) && tryCatch({
    file.create(temporary)
    if (file.exists(file)) Sys.chmod(temporary, file.mode(file), use_umask = FALSE)
    writeBin(charToRaw(text), temporary)
    file.rename(temporary, file)
  }, error = function(e) FALSE, warning = function(w) FALSE)
  if (!isTRUE(is_written)) {
    refuse("file", paste("is", quoted(file)),
           "it cannot be written: the folder may not allow it, or the disk may be full", call)
  }
}

page_text <- function(content) {
  style <- page_source("report.css")
  script <- page_script()
  page <- filled(page_source("report.html"), list(
    title = html_escaped(content$title),
    policy = paste0(
      "default-src 'none'; script-src ", policy_hash(script), "; style-src ", policy_hash(style),
      "; base-uri 'none'; form-action 'none'"
    ),
    style = style,
    data = page_json(content),
    script = script
  ))
  paste0(page, "\n")
}

# The text of a file of inst/report, in UTF-8.
page_source <- function(name) {
  file <- system.file("report", name, package = "gmhclust", mustWork = TRUE)
  paste(readLines(file, encoding = "UTF-8", warn = FALSE), collapse = "\n")
}

# D3 and the modules as one script. The modules share one scope, so imports and the word `export`
# are left out.
page_script <- function() {
  modules <- vapply(page_modules, function(name) {
    text <- page_source(name)
    text <- gsub("(^|\n)import [^;]*;", "\\1", text)
    gsub("(^|\n)export (const|function|class)", "\\1\\2", text)
  }, "")
  paste(c(page_source("d3.min.js"), "(() => {\n\"use strict\";", modules, "})();"), collapse = "\n")
}

# A source of the content security policy that allows an element with exactly this text.
policy_hash <- function(text) {
  digits <- sha256_of_text(enc2utf8(text))
  bytes <- as.raw(strtoi(substring(digits, seq(1, 63, 2), seq(2, 64, 2)), 16L))
  paste0("'sha256-", jsonlite::base64_enc(bytes), "'")
}

# A template in which {{NAME}} is replaced by the text of this name.
filled <- function(template, texts) {
  parts <- strsplit(template, "{{", fixed = TRUE)[[1]]
  names <- sub("}}.*", "", parts[-1])
  after <- sub("^[a-z]+\\}\\}", "", parts[-1])
  paste(c(parts[1], rbind(unlist(texts[names]), after)), collapse = "")
}

html_escaped <- function(text) {
  text <- gsub("&", "&amp;", text, fixed = TRUE)
  text <- gsub("<", "&lt;", text, fixed = TRUE)
  gsub(">", "&gt;", text, fixed = TRUE)
}

# The content as JSON that is safe within an element `script`. Numbers have five digits; vectors of
# bytes are in base64.
page_json <- function(content) {
  shown <- content$shown
  values <- content$values
  sample <- content$sample
  bytes <- function(values) jsonlite::unbox(jsonlite::base64_enc(as.vector(values)))
  one <- jsonlite::unbox
  labels <- function(of) {
    if (!is.null(of)) list(labels = of$labels, counts = as.vector(of$counts))
  }
  parts <- list(
    title = one(content$title),
    code = list(tree = one(content$code$tree), x = one(content$code$x)),
    columns = content$columns,
    cells = one(content$cells),
    least = one(shown$least),
    branches = list(
      split = shown$split, parent = shown$parent, size = whole(shown$size), id = shown$id,
      first = content$first, support = if (!is.null(shown$support)) signif(shown$support, 3)
    ),
    splits = list(
      number = shown$number, height = signif(shown$height, 5), valley = signif(shown$valley, 3)
    ),
    begin = shown$begin,
    range = signif(as.vector(values$range), 6),
    scale = signif(as.vector(values$scale), 5),
    quantiles = signif(as.vector(values$quantiles), 5),
    densities = bytes(values$densities),
    sample = list(
      from = sample$from, to = sample$to, even = bytes(sample$even), values = bytes(sample$values)
    ),
    samples = labels(content$samples),
    gates = labels(content$gates),
    colours = population_colours(length(shown$node)),
    palette = median_palette(100)
  )
  # jsonlite writes numbers in C, where the locale may have another decimal point.
  locale <- Sys.getlocale("LC_NUMERIC")
  if (locale != "C") {
    suppressWarnings(Sys.setlocale("LC_NUMERIC", "C"))
    on.exit(suppressWarnings(Sys.setlocale("LC_NUMERIC", locale)))
  }
  json <- jsonlite::toJSON(parts, digits = NA, na = "null", null = "null")
  escaped_json(enc2utf8(as.character(json)))
}

# Whole numbers as integers, so that all digits are written.
whole <- function(numbers) {
  if (all(numbers <= .Machine$integer.max)) as.integer(numbers) else numbers
}

# JSON without characters that end an element `script` or a line of JavaScript. They occur only
# within texts.
escaped_json <- function(json) {
  unsafe <- c("<", ">", "&", "\u2028", "\u2029")
  safe <- c("\\u003c", "\\u003e", "\\u0026", "\\u2028", "\\u2029")
  for (i in seq_along(unsafe)) json <- gsub(unsafe[i], safe[i], json, fixed = TRUE)
  json
}
