"""Many images: a project on disk, opening its images, work on all of them."""
