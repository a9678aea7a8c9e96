"""Organizations of several words, found by rule: 中国/ns 人民/n 银行/n is one.

The corpus' brackets around compound organizations are gone, but their parts carry tags. A name
starts at an anchor (a place, an organization, a brand), goes on over words that such names are
made of, and ends at the last head (银行, 委员会, ...). All else, such as a verb, a comma,
的 or a title (部长), ends the search.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from course_lib.data.people_daily import Token

LONGEST_NAME = 9  # words


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A word that is one of these, or ends in one of two and more characters, can close a name.
HEADS = tuple(
    sorted(
        _words(
            """
    委员会 公司 集团 银行 大学 学院 法院 检察院 医院 科学院 研究院 研究所 研究室 科研所
    设计院 出版社 通讯社 杂志社 报社 电视台 电台 广播电台 制片厂 日报 晚报 时报 早报 周报
    周刊 协会 学会 联合会 商会 总会 基金会 促进会 联谊会 研究会 理事会 奥委会 组委会 居委会
    村委会 常委会 特委会 安理会 工会 总工会 妇联 文联 残联 科协 作协 足协 剧协 侨联 学联
    工商联 商联 工商业联合会 议会 国会 参议院 众议院 参院 众院 下院 上院 杜马 内阁 政府 人大
    政协 代表大会 共产党 民主党 共和党 国民党 工党 保守党 自民党 社会党 人民党 国大党 党
    市委 省委 县委 区委 地委 党委 党组 团委 纪委 工委 军委 教委 体委 科委 计委 经贸委 建委
    农委 区党委 办公厅 办公室 宣传部 组织部 统战部 总参谋部 总参谋长部 国防部 外交部 财政部
    文化部 总政治部 总后勤部 政治部 司令部 国务院 公安局 公安厅 分局 派出所 海关 检查站
    管理局 工商局 税务局 国税局 地税局 铁路局 矿务局 教育局 财政局 邮电局 邮局 统计局 总局
    气象局 文化局 卫生局 水利局 环保局 民政局 司法局 劳动局 人事局 农业局 林业局 电力局
    房管局 建设局 交通局 旅游局 供电局 文化厅 教育厅 卫生厅 财政厅 水利厅 农业厅 民政厅
    司法厅 建设厅 交通厅 人事厅 科技处 科技司 司 大使馆 使馆 领事馆 军区 军分区 解放军 空军
    海军 陆军 部队 支队 总队 大队 舰队 武警 集团军 军区队 联盟 组织 同盟 阵线 联合国 女排
    男排 女足 男足 女篮 男篮 国奥队 国家队 足球队 排球队 篮球队 体操队 代表队 俱乐部 联队
    京剧院 评剧院 豫剧团 曲艺团 行署 科工委 话剧院 剧院 歌剧院 歌舞团 歌舞剧院 话剧团 京剧团
    剧团 乐团 交响乐团 合唱团 艺术团 杂技团 芭蕾舞团 文工团 舞团 中学 小学 学校 党校 幼儿园
    附中 一中 二中 师大 农大 医大 理工大 棋院 画院 书画院 农科院 林科院 中科院 社科院 总公司
    分公司 有限公司 集团公司 株式会社 分行 支行 分社 总行 总厂 分厂 电厂 钢铁厂 钢厂 造纸厂
    卷烟厂 酒厂 药厂 机械厂 汽车厂 厂 信用社 供销社 合作社 开发署 计划署 署 红十字会 消协
    证监会 交易所 证交所 书店 书局 居民委员会 办事处 代表处
    """
        )
    )
)
_WHOLE = frozenset({"党", "司", "署", "厂"})  # only as words of their own; others also as endings
_NOT_HEADS = _words(
    """
    大公司 政党 邮局 书局 部队 空军 海军 陆军 公司法 母公司 子公司 大集团 小集团 跨国公司
    大中学校 大银行 高等学校 中小学 国有银行 大剧院 人民政府军 中央政府 电影院 联合政府
    领导小组
    """
)
# Heads that after a bare country or city name a kind, not one body: 美国 公司, 北京 学校.
_KINDS = _words(
    """
    公司 集团 学校 中学 小学 厂 工厂 幼儿园 组织 协会 海关 有限公司 总公司 医院 书店 司 党
    部队 办公室 分公司 研究所 剧团 剧院 联盟 俱乐部 报社 电视台 电台 居委会 村委会 派出所
    银行 大学 学院 党委 党组 出版社 分局 委员会 理事会 支队 大队 署 合作社 信用社 供销社
    基金会 代表处 电厂 乐团 交易所
    """
)
# After a bare place these are names all the same.
_BARE = {"银行": ("中国", "日本"), "大学": (), "医院": (), "电视台": (), "海关": (), "集团": ()}
_COUNTRIES = _words(
    """
    中国 美国 日本 韩国 朝鲜 法国 英国 德国 俄罗斯 印度 泰国 西班牙 意大利 加拿大 澳大利亚
    以色列 伊拉克 伊朗 印度尼西亚 印尼 马来西亚 新加坡 菲律宾 越南 巴西 墨西哥 埃及 南非
    瑞士 瑞典 荷兰 比利时 欧洲 亚洲 非洲 世界 拉丁美洲 西方 港 香港 台湾 澳门
    """
)
# 中国 上市 公司 is a kind too, whatever the place.
_LOOSE = _words("公司 企业 银行 集团 组织 学校 大学 机构 联盟 委员会 党 厂")
_LOOSE_PARTS = _words(
    """
    上市 商业 专业 军事 民间 金融 证券 外贸 社会 恐怖 武装 群众 大企业 企业 地方 城市 单项
    股份 跨国
    """
)
# Parts that follow another place within one name: 中国 银行 上海 分行.
_BRANCHES = _words("分行 支行 分社 分公司 分会 分局 办事处 代表处 分部 分院 分校")

_ANCHOR_TAGS = frozenset({"ns", "nt", "nz"})
# These begin the name of a paper or a publishing house, and of nothing else.
_PRESS = _words("人民 解放 光明 经济 农民 工人 法制 科技 中国青年 作家")
_ANCHOR_WORDS = _words("全国 国家 中央 国际 世界 最高 中华 中共 中华全国")
_MIDDLE_TAGS = frozenset({"ns", "nz", "n", "vn", "j", "b", "an", "Ng", "nx", "f", "l", "s"})
_NOT_MIDDLE = _words(
    """
    各 大型 中型 小型 中小型 所有 有关 主要 一些 部分 同胞 地区 部门 单位 方面 市场 问题
    企业 当局 附近 以上 以下 之间 境内 内 外 上 下 中 后 前 里 间 以来 以外 以内 期间 时期
    东部 西部 南部 北部 国有 私营 民营 外资 独资 合资 外国 其他 老牌 著名 知名 优秀 先进
    重点 一流 最大 同行 多数 个别 驻 大 小 新 老 原 现 全体 双方 危机 事件 局势 形势 消息
    首都 灾区 农村 边境 邻国 事业 工程 春节 期货 以北 以南 以东 以西 上空 沿海 沿线 基层
    特色 近郊 郊区 市区 街头 机关 党政军 党政 各级 及其 所属 下属 附属 唯一 历史 领导 同类
    整个 上市
    """
)
# A word that ends so is a person: the name ended before it.
_TITLES = tuple(
    sorted(
        _words(
            """
    长 员 师 者 人 主席 书记 主任 总理 总统 首相 大臣 委员 经理 总裁 教授 博士 记者 院士
    大使 公使 代表 选手 同志 先生 女士 夫人 专家 学者 队员 名将 新秀 干部 职工 工人 农民
    学生 市民 村民 居民 群众 官兵 战士 战友 国王 总监 常委 司令 政委 参赞 发言人 议员 客人
    朋友 青年 妇女
    """
        )
    )
)
_OF_PERSONS = tuple(
    sorted(
        _words(
            """
    协会 联合会 联谊会 学会 研究会 大学 学院 日报 报 出版社 基金会 委员会 总会 俱乐部 医院
    """
        )
    )
)
# One word that names one body wherever it stands; most are abbreviations.
NAMES = _words(
    """
    欧盟 北约 安理会 独联体 东盟 阿盟 中共 越共 尼共 中宣部 中组部 国家教委 国家科委
    国家体委 国家计委 外经贸部 中科院 社科院 广电部 特委会 全国人大 全国政协 全国妇联
    国际奥委会 工商联 农行 工行 建行 中行 世贸组织 国际足联 非统 欧佩克 中央军委 中纪委
    国家经贸委 国际泳联 中国奥委会 共青团 解放军 国民党 自民党 国大党 巴解组织 总政治部
    总后勤部 总参谋部 总装备部 塔利班 民革 民盟 民建 民进 农工党 台盟 阿共体
    """
)


def find(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """Organizations in the tokens of a line, as (first token, end), from left to right.

    Single nt tokens and the abbreviations count too; runs that only mention a place do not.
    """
    found = []
    start = 0
    while start < len(tokens):
        end = _end(tokens, start)
        if end > start:
            found.append((start, end))
        start = max(end, start + 1)
    return found


def _end(tokens: Sequence[Token], start: int) -> int:
    """The end of the name that starts here, or `start` when none does."""
    word, tag = tokens[start]
    best = start + 1 if _is_name(word, tag) else start
    known = tag in _ANCHOR_TAGS or (tag != "nr" and (word in _ANCHOR_WORDS or word in _PRESS))
    if not known and best == start:
        return start
    closed = best > start
    for place in range(start + 1, min(len(tokens), start + LONGEST_NAME)):
        word, tag = tokens[place]
        if tag == "nt":
            # 俄罗斯 国防部 is one; 党中央 国务院 are two
            return place + 1 if place == start + 1 and tokens[start][1] == "ns" else best
        if closed and _is_name(word, tag) and word not in HEADS:
            return best
        inner = tag == "ns" and tokens[place - 1][1] not in _ANCHOR_TAGS
        if (closed and tag == "nz") or (inner and tokens[place - 1][0] not in _ANCHOR_WORDS):
            if not _is_branch(tokens, place):
                return best
            closed = False
        elif not _is_middle(tokens, place):
            return best
        if _is_head(tokens, start, place):
            best, closed = place + 1, True
    return best


def _is_name(word: str, tag: str) -> bool:
    if tag == "nz":  # 人民日报/nz
        return len(word) > 3 and word.endswith(_ENDINGS)
    return tag == "nt" or (tag in ("n", "j") and word in NAMES)


def _is_middle(tokens: Sequence[Token], place: int) -> bool:
    word, tag = tokens[place]
    if tag == "j" and len(word) == 1:
        return False  # 泰/j, a country
    if word == "全国":
        return tokens[place - 1][0] in ("中华", "中国")
    if (word, tag) == ("届", "q"):
        return tokens[place - 1][1] == "m"
    if tag == "m":
        return word.startswith("第") or (len(word) == 1 and word in "一二三四五六七八九十")
    if word in _NOT_MIDDLE or tag not in _MIDDLE_TAGS:
        return word in ("最高", "高级", "进出口", "有限", "老年", "常务")
    if word.endswith(_TITLES):
        following = tokens[place + 1][0] if place + 1 < len(tokens) else ""
        return following.endswith(_OF_PERSONS)
    return True


def _is_head(tokens: Sequence[Token], start: int, place: int) -> bool:
    word, tag = tokens[place]
    if word in _NOT_HEADS or tag in ("ns", "m", "f", "s"):
        return False
    if not _can_close(word):
        return False
    anchor, anchor_tag = tokens[start]
    if anchor in _PRESS:
        return word.endswith(("日报", "出版社")) or anchor + word == "人民银行"
    if place > start + 1:
        return not (word in _LOOSE and place == start + 2 and tokens[place - 1][0] in _LOOSE_PARTS)
    if anchor_tag == "ns" and word in _KINDS:
        names = _BARE.get(word)
        return names is not None and (anchor in names or anchor not in _COUNTRIES)
    if anchor in _ANCHOR_WORDS and anchor != "中共":
        return tag == "j" or (anchor + word) in ("世界银行", "中央电视台", "中央军委", "全国妇联")
    return True


@cache
def _can_close(word: str) -> bool:
    return word in HEADS or (len(word) > 2 and word.endswith(_ENDINGS))


def _is_branch(tokens: Sequence[Token], place: int) -> bool:
    """Whether a place within a name leads to a branch of it."""
    for word, tag in tokens[place + 1 : place + 4]:
        if word in _BRANCHES:
            return True
        if tag not in ("ns", "n", "nz"):
            return False
    return False


_ENDINGS = tuple(head for head in HEADS if head not in _WHOLE)
