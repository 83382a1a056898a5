//! Numbers of bytes for messages.

/// A number of bytes in MB or GB.
pub fn in_words(bytes: f64) -> String {
    if bytes < 1e9 {
        return format!("{:.1} MB", bytes / 1e6);
    }
    format!("{:.1} GB", bytes / 1e9)
}
