"""Arguments and options that several commands share, with their help texts."""

from typing import Annotated, Final

from cyclopts import Parameter

from headway.core.run.run import FilesOnCancel

_FLAG: Final = Parameter(negative=(), show_default=False)
"""A flag without a `--no-…` form. The help does not show its default, which is off."""

RunIdArgument = Annotated[str, Parameter(help="The id of the run, as `run submit` printed it.")]
TaskIdArgument = Annotated[str, Parameter(help="The id of the task, as `flow start` printed it.")]
FlowArgument = Annotated[str, Parameter(help="The name of the flow.")]
LaneArgument = Annotated[str, Parameter(help="The name of the lane.")]
ScheduleArgument = Annotated[str, Parameter(help="The name of the schedule.")]
KeyArgument = Annotated[str, Parameter(help="The key.")]
JobArgument = Annotated[str, Parameter(help="The name of the job.")]

AppOption = Annotated[
    str | None,
    Parameter(
        help="The `Headway` with your jobs and its database, as `module:name`, if HEADWAY_URL is"
        " not set. Default: HEADWAY_APP."
    ),
]
DatabaseAppOption = Annotated[
    str | None,
    Parameter(help="The `Headway` whose database to use, as `module:name`. Default: HEADWAY_APP."),
]
JsonOption = Annotated[bool, _FLAG, Parameter(help="Print JSON, one object per line.")]
IdempotencyKeyOption = Annotated[
    str | None,
    Parameter(
        help="A text of your choice that makes the command safe to repeat: a second call with the"
        " same key starts nothing and prints the result of the first."
    ),
]
DeleteFilesOption = Annotated[
    bool, _FLAG, Parameter(help="Also delete the files that the run has finished.")
]
ReasonOption = Annotated[
    str, Parameter(help="The reason, which is stored with the run.", show_default=False)
]
LimitOption = Annotated[int, Parameter(help="The maximum number of rows.")]
VersionOption = Annotated[
    int | None, Parameter(help="The version of the flow. Default: the published version.")
]
WatchOption = Annotated[bool, _FLAG, Parameter(help="Show what the run does until it ends.")]
FollowOption = Annotated[
    bool,
    _FLAG,
    Parameter(name=("--follow", "-f"), help="Continue until the run ends."),
]


def files_on_cancel(*, delete_files: bool) -> FilesOnCancel:
    return FilesOnCancel.DELETE if delete_files else FilesOnCancel.KEEP
