//! What every controller of Bellwether shares.
