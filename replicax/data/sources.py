"""Where the data sets come from: their files, checksums, licences and public addresses."""

from __future__ import annotations

from typing import NamedTuple


class File(NamedTuple):
    """One IDX file.

    Attributes:
      name: without `.gz`.
      shape: of the array in it, unsigned bytes.
      sha256: of the unpacked content, since packers differ.
    """

    name: str
    shape: tuple[int, ...]
    sha256: str


class Source(NamedTuple):
    """A data set.

    Attributes:
      files: train images, train labels, test images, test labels; empty if it ships in the package.
      mirrors: addresses that end in `/`, below which `NAME.gz` lies, in the order of trying.
      installed: folders in which a system's package puts the files.
      licence: and whom to credit.
      remedy: another way to get it, for errors.
    """

    files: tuple[File, ...]
    mirrors: tuple[str, ...]
    installed: tuple[str, ...]
    licence: str
    remedy: str


def _files(*sha256: str) -> tuple[File, ...]:
    names_shapes = (
        ("train-images-idx3-ubyte", (60_000, 28, 28)),
        ("train-labels-idx1-ubyte", (60_000,)),
        ("t10k-images-idx3-ubyte", (10_000, 28, 28)),
        ("t10k-labels-idx1-ubyte", (10_000,)),
    )
    return tuple(File(n, shape, h) for (n, shape), h in zip(names_shapes, sha256, strict=True))


SOURCES = {
    "digits": Source(
        files=(),
        mirrors=(),
        installed=(),
        licence="CC BY 4.0; E. Alpaydin, C. Kaynak, UCI Machine Learning Repository (1998)",
        remedy="",
    ),
    "mnist": Source(
        files=_files(
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
        mirrors=(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
        installed=(),
        licence="terms unclear, usually given as CC BY-SA 3.0; Y. LeCun, C. Cortes, C. Burges",
        remedy="",
    ),
    "fashion_mnist": Source(
        files=_files(
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
        mirrors=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
        installed=("/usr/share/datasets/fashion-mnist",),
        licence="MIT; Zalando SE",
        remedy=", install Debian's package dataset-fashion-mnist",
    ),
}
